-- +goose Up
-- The same changes as in ../mysql, which has the comments.

ALTER TABLE orders ADD COLUMN change_no INTEGER NULL;
CREATE INDEX orders_changes ON orders (change_no);
ALTER TABLE sales ADD COLUMN change_no INTEGER NULL;
CREATE INDEX sales_changes ON sales (change_no);

CREATE TABLE feed (
    id          INTEGER  NOT NULL PRIMARY KEY,
    name        TEXT     NOT NULL,
    last        INTEGER  NOT NULL,
    numbered_at DATETIME NOT NULL,
    complete_at DATETIME NOT NULL,
    not_before  DATETIME NOT NULL
);

INSERT INTO feed (id, name, last, numbered_at, complete_at, not_before)
VALUES (1, lower(hex(randomblob(16))), 0, '2000-01-01 00:00:00+00:00', '2000-01-01 00:00:00+00:00', '2000-01-01 00:00:00+00:00');

CREATE TABLE webhooks (
    name         TEXT     NOT NULL PRIMARY KEY,
    position     TEXT     NOT NULL DEFAULT '',
    failures     INTEGER  NOT NULL DEFAULT 0,
    next_at      DATETIME NOT NULL,
    leased_until DATETIME NOT NULL,
    stopped      INTEGER  NOT NULL DEFAULT 0,
    last_error   TEXT     NOT NULL DEFAULT ''
);

-- +goose Down
DROP TABLE webhooks;
DROP TABLE feed;
DROP INDEX sales_changes;
ALTER TABLE sales DROP COLUMN change_no;
DROP INDEX orders_changes;
ALTER TABLE orders DROP COLUMN change_no;
