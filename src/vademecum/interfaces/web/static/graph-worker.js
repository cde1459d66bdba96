// Where the nodes of a graph go: springs along edges, repulsion by a quadtree (Barnes and Hut), away from the page's thread.
const FAR = 0.81;        // square of the angle from which a cell of the tree counts as one body
const SPRING = 34;       // length of an edge at rest
const CHARGE = 36;
const DEEP = 26;         // levels of the tree; closer bodies than that are one

let run = 0;

self.onmessage = ({ data }) => {
  const mine = ++run;
  const layout = makeLayout(data);
  let alpha = data.warm ? 0.35 : 1, ticks = 0, told = 0;
  const step = () => {
    if (mine !== run) return; // another graph has come
    const begun = performance.now();
    do { layout.tick(alpha); alpha *= 0.977; ticks++; } while (alpha > 0.004 && performance.now() - begun < 12);
    const done = alpha <= 0.004;
    if (done || (data.still ? performance.now() - told > 1200 : true)) {
      told = performance.now();
      const places = layout.places.slice();
      self.postMessage({ run: data.run, places, done, ticks }, [places.buffer]);
    }
    if (!done) setTimeout(step, 0);
  };
  step();
};

function makeLayout({ places, edges, size }) {
  const moves = new Float32Array(2 * size), degree = new Uint16Array(size), tree = makeTree(size);
  for (let at = 0; at < edges.length; at++) degree[edges[at]]++;
  return {
    places,
    tick(alpha) {
      for (let at = 0; at < edges.length; at += 2) {
        const a = edges[at], b = edges[at + 1];
        const dx = places[2 * b] + moves[2 * b] - places[2 * a] - moves[2 * a];
        const dy = places[2 * b + 1] + moves[2 * b + 1] - places[2 * a + 1] - moves[2 * a + 1];
        const far = Math.sqrt(dx * dx + dy * dy) || 1;
        const pull = ((far - SPRING) / far) * alpha / Math.min(degree[a], degree[b]);
        const share = degree[a] / (degree[a] + degree[b]); // what has many edges moves less
        moves[2 * b] -= dx * pull * share; moves[2 * b + 1] -= dy * pull * share;
        moves[2 * a] += dx * pull * (1 - share); moves[2 * a + 1] += dy * pull * (1 - share);
      }
      tree.build(places, size);
      for (let i = 0; i < size; i++) tree.push(i, places, moves, alpha * CHARGE);
      for (let at = 0; at < 2 * size; at++) {
        moves[at] = (moves[at] - places[at] * 0.02 * alpha) * 0.6;
        places[at] += moves[at];
      }
    },
  };
}

function makeTree(size) {
  const most = 8 * size + 64;
  const child = new Int32Array(4 * most), body = new Int32Array(most), mass = new Float32Array(most);
  const sumX = new Float32Array(most), sumY = new Float32Array(most), stack = new Int32Array(4 * DEEP + 64), width = new Float32Array(4 * DEEP + 64);
  let used = 0, whole = 1, left = 0, top = 0;

  const make = () => { const made = used++; child.fill(0, 4 * made, 4 * made + 4); body[made] = -1; mass[made] = sumX[made] = sumY[made] = 0; return made; };

  function insert(i, x, y) {
    let cell = 0, half = whole / 2, cx = left + half, cy = top + half;
    for (let level = 0; ; level++) {
      const empty = mass[cell] === 0, other = body[cell];
      mass[cell]++; sumX[cell] += x; sumY[cell] += y;
      if (empty) { body[cell] = i; return; }
      if (level >= DEEP || used >= most - 4) return;
      if (other >= 0) { // a leaf: what is in it goes one level down
        body[cell] = -1;
        const ox = points[2 * other], oy = points[2 * other + 1];
        const made = make();
        child[4 * cell + (ox > cx ? 1 : 0) + (oy > cy ? 2 : 0)] = made;
        body[made] = other; mass[made] = mass[cell] - 1; sumX[made] = sumX[cell] - x; sumY[made] = sumY[cell] - y;
      }
      const quarter = 4 * cell + (x > cx ? 1 : 0) + (y > cy ? 2 : 0);
      half /= 2;
      cx += x > cx ? half : -half; cy += y > cy ? half : -half;
      if (!child[quarter]) child[quarter] = make();
      cell = child[quarter];
    }
  }

  let points = null;
  return {
    build(places, count) {
      let right = -Infinity, bottom = -Infinity;
      left = top = Infinity;
      for (let i = 0; i < count; i++) {
        const x = places[2 * i], y = places[2 * i + 1];
        if (x < left) left = x; if (x > right) right = x; if (y < top) top = y; if (y > bottom) bottom = y;
      }
      whole = Math.max(right - left, bottom - top, 1) * 1.001;
      used = 0; make(); points = places;
      for (let i = 0; i < count; i++) insert(i, places[2 * i], places[2 * i + 1]);
    },
    push(i, places, moves, strength) {
      const x = places[2 * i], y = places[2 * i + 1];
      let depth = 0, gx = 0, gy = 0;
      stack[0] = 0; width[0] = whole;
      while (depth >= 0) {
        const cell = stack[depth], wide = width[depth--];
        let dx = x - sumX[cell] / mass[cell], dy = y - sumY[cell] / mass[cell];
        let far = dx * dx + dy * dy;
        if (body[cell] >= 0 || wide * wide < FAR * far) {
          if (body[cell] === i && mass[cell] === 1) continue;
          if (far < 1) { dx = ((i % 7) - 3) / 3 + 0.1; dy = ((i % 5) - 2) / 2 + 0.1; far = 1; }
          const force = (strength * mass[cell]) / far;
          gx += dx * force; gy += dy * force;
          continue;
        }
        for (let q = 0; q < 4; q++) if (child[4 * cell + q]) { stack[++depth] = child[4 * cell + q]; width[depth] = wide / 2; }
      }
      moves[2 * i] += gx; moves[2 * i + 1] += gy;
    },
  };
}
