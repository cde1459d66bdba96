-- What is searched: passages of the documents that facts show, their words and their vectors. All of it is
-- derived: a stream whose `projected` is behind its head is taken in again, from its first fact if need be.

ALTER TABLE hub.stream ADD COLUMN projected bigint NOT NULL DEFAULT 0;

-- Locked by whoever changes the passages of a workspace, so that two never change the same words at once.
CREATE TABLE hub.search (
    ws bigint PRIMARY KEY REFERENCES hub.workspace,
    settings jsonb NOT NULL DEFAULT '{}',
    languages jsonb NOT NULL DEFAULT '{}',
    last_passage bigint NOT NULL DEFAULT 0,
    last_document bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0
);

-- Which file shows a document; documents of one name are one file.
CREATE TABLE hub.shown (
    ws bigint NOT NULL,
    stream text NOT NULL,
    doc text NOT NULL,
    folded text NOT NULL,
    item text NOT NULL,
    PRIMARY KEY (ws, stream, doc)
);
CREATE INDEX shown_name ON hub.shown (ws, stream, folded);

CREATE TABLE hub.document (
    ws bigint NOT NULL,
    id bigint NOT NULL,
    item text NOT NULL,
    path text NOT NULL,
    source text NOT NULL,
    kind text NOT NULL,
    scope text NOT NULL,
    scope_id text NOT NULL,
    root text NOT NULL,
    hash text NOT NULL,
    stamp bigint[] NOT NULL,
    reason text,
    title text NOT NULL,
    key text,
    num bigint,
    type text,
    tags text[] NOT NULL,
    updated text COLLATE "C",
    PRIMARY KEY (ws, id),
    UNIQUE (ws, item, scope, scope_id)
);

CREATE TABLE hub.passage (
    ws bigint NOT NULL,
    id bigint NOT NULL,
    file bigint NOT NULL,
    ord int NOT NULL,
    start int NOT NULL,
    last int NOT NULL,
    body text NOT NULL,
    heading text NOT NULL,
    time text,
    moment text COLLATE "C",
    origin text,
    superseded text,
    ended text COLLATE "C",
    speaker text,
    asks int NOT NULL,
    says int NOT NULL,
    alone boolean NOT NULL,
    size int NOT NULL,
    stems bytea NOT NULL,
    place bytea NOT NULL,
    language text NOT NULL,
    head text NOT NULL,  -- searched beside the text
    said text,  -- what is searched, where that is not the text
    text_sha bytea NOT NULL,  -- of what its vector is made from
    PRIMARY KEY (ws, id)
) PARTITION BY HASH (ws);
CREATE INDEX passage_file ON hub.passage (ws, file, ord);
CREATE INDEX passage_text ON hub.passage (ws, text_sha);

-- Where a stem stands: in which of 1,024 consecutive passages, or files where `wide`, and at which places.
-- The empty stem says how many terms each of them has.
CREATE TABLE hub.posting (
    ws bigint NOT NULL,
    wide boolean NOT NULL,
    stem text COLLATE "C" NOT NULL,
    block int NOT NULL,
    seen int NOT NULL,  -- passages or files that hold it
    held bytea NOT NULL,
    PRIMARY KEY (ws, wide, stem, block)
) PARTITION BY HASH (ws);

CREATE TABLE hub.vector (
    ws bigint NOT NULL,
    text_sha bytea NOT NULL,
    vec public.halfvec(256) NOT NULL,
    PRIMARY KEY (ws, text_sha)
) PARTITION BY HASH (ws);

DO $$
BEGIN
    FOR part IN 0..63 LOOP
        EXECUTE format(
            'CREATE TABLE hub.passage_%1$s PARTITION OF hub.passage FOR VALUES WITH (MODULUS 64, REMAINDER %2$s)',
            lpad(part::text, 2, '0'), part);
        EXECUTE format(
            'CREATE TABLE hub.posting_%1$s PARTITION OF hub.posting FOR VALUES WITH (MODULUS 64, REMAINDER %2$s)',
            lpad(part::text, 2, '0'), part);
        EXECUTE format(
            'CREATE TABLE hub.vector_%1$s PARTITION OF hub.vector FOR VALUES WITH (MODULUS 64, REMAINDER %2$s)',
            lpad(part::text, 2, '0'), part);
    END LOOP;
END $$;

-- Unset or empty, the setting is an error and not "all rows".
DO $$
DECLARE each record;
BEGIN
    FOR each IN
        SELECT c.relname AS name, c.relispartition AS part
        FROM pg_class c
        WHERE c.relnamespace = 'hub'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relrowsecurity
    LOOP
        EXECUTE format('ALTER TABLE hub.%I ENABLE ROW LEVEL SECURITY', each.name);
        EXECUTE format('ALTER TABLE hub.%I FORCE ROW LEVEL SECURITY', each.name);
        EXECUTE format(
            'CREATE POLICY own ON hub.%I USING (ws = current_setting(''hub.ws'')::bigint)'
            ' WITH CHECK (ws = current_setting(''hub.ws'')::bigint)', each.name);
        IF NOT each.part THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON hub.%I TO hub_app', each.name);
        END IF;
    END LOOP;
END $$;
