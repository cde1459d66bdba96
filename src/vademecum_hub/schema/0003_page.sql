-- The page over the hub: who has it open, which entries have two versions, and what makes its lists quick.

-- A link that was made and, once it was opened, a browser that was let in. Whatever opens it is a mac under the
-- hub's key: nothing in here lets anybody in.
CREATE TABLE hub.page_session (
    ws bigint NOT NULL,
    session uuid NOT NULL,
    token uuid NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    opened_at timestamptz,
    left_at timestamptz,
    PRIMARY KEY (ws, session),
    FOREIGN KEY (ws, token) REFERENCES hub.token
);

-- Entries that were changed by somebody who had not seen what somebody else wrote. Derived: what was settled
-- since is taken out when somebody looks.
CREATE TABLE hub.conflict (
    ws bigint NOT NULL,
    stream text NOT NULL,
    doc text NOT NULL,
    target text NOT NULL,
    PRIMARY KEY (ws, stream, doc, target)
);

ALTER TABLE hub.token ADD COLUMN seen_at timestamptz;

CREATE INDEX fact_at ON hub.fact (ws, at, stream, seq);
CREATE INDEX fact_kind ON hub.fact (ws, stream, kind, doc) WHERE kind IN ('name', 'purge', 'vouch');

DO $$
DECLARE each text;
BEGIN
    FOREACH each IN ARRAY ARRAY['page_session', 'conflict'] LOOP
        EXECUTE format('ALTER TABLE hub.%I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format('ALTER TABLE hub.%I FORCE ROW LEVEL SECURITY', each);
        EXECUTE format(
            'CREATE POLICY own ON hub.%I USING (ws = current_setting(''hub.ws'')::bigint)'
            ' WITH CHECK (ws = current_setting(''hub.ws'')::bigint)', each);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON hub.%I TO hub_app', each);
    END LOOP;
    -- Row-level security binds whoever migrates as well: one workspace after the other.
    FOR number IN 1..(SELECT last_value FROM hub.workspaces) LOOP
        PERFORM set_config('hub.ws', number::text, true);
        INSERT INTO hub.conflict
        SELECT DISTINCT f.ws, f.stream, f.doc, f.target
        FROM hub.fact f
        JOIN hub.fact g USING (ws, stream, doc, target)
        WHERE f.ws = number AND f.kind = 'put' AND g.kind = 'put' AND f.seq < g.seq
          AND NOT f.replica || ':' || f.n = ANY(g.over);
    END LOOP;
END $$;
