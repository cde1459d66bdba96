-- With which token a token or a code to join with was made: what a stolen one made ends with it. Of those that
-- were made before this, it is not known.

ALTER TABLE hub.token ADD COLUMN made_with uuid;
CREATE INDEX token_made_with ON hub.token (ws, made_with) WHERE made_with IS NOT NULL;
ALTER TABLE hub.invite ADD COLUMN made_with uuid;
