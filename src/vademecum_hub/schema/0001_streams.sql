-- Workspaces, who may enter them, and the facts of their streams.
-- Every key begins with ws: a constraint sees through row-level security, and must not tell what others hold.

CREATE SEQUENCE hub.workspaces;

CREATE TABLE hub.workspace (
    ws bigint PRIMARY KEY,
    public uuid NOT NULL,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('personal', 'team')),
    rules jsonb NOT NULL DEFAULT '{}',
    quota_bytes bigint NOT NULL DEFAULT 2147483648,  -- of each stream
    quota_facts bigint NOT NULL DEFAULT 1000000,
    last_num bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE hub.member (
    ws bigint NOT NULL REFERENCES hub.workspace,
    member uuid NOT NULL,
    name text NOT NULL,
    role text NOT NULL CHECK (role IN ('reader', 'writer', 'editor', 'owner')),
    added_at timestamptz NOT NULL DEFAULT now(),
    removed_at timestamptz,
    PRIMARY KEY (ws, member)
);
CREATE UNIQUE INDEX member_name ON hub.member (ws, name) WHERE removed_at IS NULL;

CREATE TABLE hub.token (
    ws bigint NOT NULL,
    token uuid NOT NULL,
    member uuid NOT NULL,
    hash bytea NOT NULL,
    scopes text[] NOT NULL CHECK (scopes <@ ARRAY['read', 'write', 'person']),
    label text NOT NULL DEFAULT '',
    replica text,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires timestamptz NOT NULL,
    revoked_at timestamptz,
    PRIMARY KEY (ws, token),
    FOREIGN KEY (ws, member) REFERENCES hub.member
);
CREATE INDEX token_hash ON hub.token (hash);  -- for hub.authenticate alone, which looks across workspaces

CREATE TABLE hub.invite (
    ws bigint NOT NULL,
    invite text NOT NULL,  -- the part of the code that finds it
    hash bytea NOT NULL,  -- of the part that opens it
    member uuid,  -- a further machine of this member; none makes a new one
    name text,
    role text,
    scopes text[] NOT NULL,
    made_by uuid,
    expires timestamptz NOT NULL,
    tries int NOT NULL DEFAULT 0,
    used_at timestamptz,
    PRIMARY KEY (ws, invite)
);
CREATE INDEX invite_code ON hub.invite (invite);  -- for hub.find_invite alone

CREATE TABLE hub.stream (
    ws bigint NOT NULL REFERENCES hub.workspace,
    stream text NOT NULL,
    scope text NOT NULL,
    place text NOT NULL,
    epoch bigint NOT NULL DEFAULT 1,
    head bigint NOT NULL DEFAULT 0,
    chain bytea NOT NULL,
    max_lam bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (ws, stream)
);

CREATE TABLE hub.fact (
    ws bigint NOT NULL,
    stream text NOT NULL,
    seq bigint NOT NULL,
    replica text NOT NULL,
    n bigint NOT NULL,
    hash bytea NOT NULL,
    prev bytea NOT NULL,
    chain bytea NOT NULL,
    lam bigint NOT NULL,
    doc text NOT NULL,
    kind text NOT NULL,
    target text NOT NULL,
    over text[] NOT NULL,
    kills text[] NOT NULL,
    value bytea,  -- JSON; null once purged
    origin text NOT NULL,
    door text NOT NULL,
    seal text NOT NULL,  -- the personal workspace's own mac, under a key that is never here
    num bigint,
    author text NOT NULL,
    role text NOT NULL,
    token uuid,
    at timestamptz NOT NULL,
    mac bytea NOT NULL,
    purged_at timestamptz,
    epoch bigint NOT NULL,
    PRIMARY KEY (ws, stream, seq),
    UNIQUE (ws, stream, replica, n)
) PARTITION BY HASH (ws);
CREATE INDEX fact_doc ON hub.fact (ws, stream, doc, seq);

DO $$
BEGIN
    FOR part IN 0..63 LOOP
        EXECUTE format(
            'CREATE TABLE hub.fact_%s PARTITION OF hub.fact FOR VALUES WITH (MODULUS 64, REMAINDER %s)',
            lpad(part::text, 2, '0'), part);
    END LOOP;
END $$;

CREATE TABLE hub.number (
    ws bigint NOT NULL,
    num bigint NOT NULL,
    stream text NOT NULL,
    doc text NOT NULL,
    PRIMARY KEY (ws, num),
    UNIQUE (ws, stream, doc)
);

CREATE TABLE hub.purge_ack (
    ws bigint NOT NULL,
    stream text NOT NULL,
    seq bigint NOT NULL,
    replica text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (ws, stream, seq, replica)
);

CREATE TABLE hub.lease (
    ws bigint NOT NULL,
    stream text NOT NULL,
    holder text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (ws, stream)
);

CREATE TABLE hub.admin_log (
    ws bigint NOT NULL,
    seq bigint NOT NULL,
    line jsonb NOT NULL,
    prev bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (ws, seq)
);

-- Unset or empty, the setting is an error and not "all rows".
DO $$
DECLARE each record;
BEGIN
    FOR each IN
        SELECT c.relname AS name, c.relispartition AS part
        FROM pg_class c
        WHERE c.relnamespace = 'hub'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'migration'
    LOOP
        EXECUTE format('ALTER TABLE hub.%I ENABLE ROW LEVEL SECURITY', each.name);
        EXECUTE format('ALTER TABLE hub.%I FORCE ROW LEVEL SECURITY', each.name);
        EXECUTE format(
            'CREATE POLICY own ON hub.%I USING (ws = current_setting(''hub.ws'')::bigint)'
            ' WITH CHECK (ws = current_setting(''hub.ws'')::bigint)', each.name);
        IF NOT each.part THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE ON hub.%I TO hub_app', each.name);
        END IF;
    END LOOP;
END $$;
REVOKE INSERT ON hub.workspace FROM hub_app;
REVOKE UPDATE ON hub.admin_log FROM hub_app;
GRANT DELETE ON hub.lease TO hub_app;

-- The two questions that are asked before it is known which workspace asks.
CREATE POLICY lookup ON hub.token FOR SELECT TO hub_lookup USING (true);
CREATE POLICY lookup ON hub.member FOR SELECT TO hub_lookup USING (true);
CREATE POLICY lookup ON hub.workspace FOR SELECT TO hub_lookup USING (true);
CREATE POLICY lookup ON hub.invite FOR SELECT TO hub_lookup USING (true);
GRANT SELECT ON hub.token, hub.member, hub.workspace, hub.invite TO hub_lookup;

CREATE FUNCTION hub.authenticate(given bytea)
RETURNS TABLE (
    ws bigint, public uuid, kind text, token uuid, member uuid, name text, role text, scopes text[], replica text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.ws, w.public, w.kind, t.token, m.member, m.name, m.role, t.scopes, t.replica
    FROM hub.token t
    JOIN hub.member m ON m.ws = t.ws AND m.member = t.member
    JOIN hub.workspace w ON w.ws = t.ws
    WHERE t.hash = given
      AND t.revoked_at IS NULL
      AND t.expires > now()
      AND m.removed_at IS NULL
$$;

CREATE FUNCTION hub.find_invite(given text)
RETURNS TABLE (ws bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT i.ws
    FROM hub.invite i
    WHERE i.invite = given
      AND i.used_at IS NULL
      AND i.expires > now()
      AND i.tries < 5
    LIMIT 1
$$;

GRANT CREATE ON SCHEMA hub TO hub_lookup;
ALTER FUNCTION hub.authenticate(bytea) OWNER TO hub_lookup;
ALTER FUNCTION hub.find_invite(text) OWNER TO hub_lookup;
REVOKE CREATE ON SCHEMA hub FROM hub_lookup;
