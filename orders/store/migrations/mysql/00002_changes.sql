-- +goose Up
-- The feed of changes and the webhooks that deliver it. changes.go describes the numbers.
--
-- MySQL commits each of these statements by itself and has no ADD COLUMN IF NOT EXISTS. Therefore
-- each statement first checks whether the column or index exists, and then runs DO 0, so the
-- migration can run again after a crash. TiDB changes one thing per ALTER TABLE.

SET @add = IF(EXISTS(SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'orders' AND column_name = 'change_no'),
    'DO 0', 'ALTER TABLE orders ADD COLUMN change_no BIGINT NULL'); -- NULL: changed since the order was last numbered
PREPARE add_it FROM @add;
EXECUTE add_it;

SET @add = IF(EXISTS(SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'orders' AND index_name = 'orders_changes'),
    'DO 0', 'CREATE INDEX orders_changes ON orders (change_no)');
PREPARE add_it FROM @add;
EXECUTE add_it;

SET @add = IF(EXISTS(SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sales' AND column_name = 'change_no'),
    'DO 0', 'ALTER TABLE sales ADD COLUMN change_no BIGINT NULL'); -- NULL: changed by an operator since the sale was last numbered
PREPARE add_it FROM @add;
EXECUTE add_it;

SET @add = IF(EXISTS(SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sales' AND index_name = 'sales_changes'),
    'DO 0', 'CREATE INDEX sales_changes ON sales (change_no)');
PREPARE add_it FROM @add;
EXECUTE add_it;
DEALLOCATE PREPARE add_it;

-- One row. Every transaction that gives numbers updates the row first, and so waits for the
-- transaction before it.
CREATE TABLE IF NOT EXISTS feed (
    id          INT         NOT NULL, -- 1
    name        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- random; a cursor is valid for the database with this name
    last        BIGINT      NOT NULL, -- the last number that was given: milliseconds since 1970, or the number before it plus 1
    numbered_at DATETIME(3) NOT NULL, -- when it was given
    complete_at DATETIME(3) NOT NULL, -- when numbers were last given to all changed rows
    not_before  DATETIME(3) NOT NULL, -- no numbers are given before this time, because orders wait
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

INSERT IGNORE INTO feed (id, name, last, numbered_at, complete_at, not_before) VALUES (1, UUID(), 0, '2000-01-01', '2000-01-01', '2000-01-01');

-- One row per webhook.
CREATE TABLE IF NOT EXISTS webhooks (
    name         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    position     VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- cursor after the last delivered change
    failures     INT          NOT NULL DEFAULT 0, -- failed attempts since the last delivery
    next_at      DATETIME(3)  NOT NULL, -- time of the next attempt
    leased_until DATETIME(3)  NOT NULL, -- until this time, one node delivers
    stopped      INT          NOT NULL DEFAULT 0, -- 1: the endpoint has answered 410, and an operator must resume the webhook
    last_error   VARCHAR(300) NOT NULL DEFAULT '',
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE webhooks;
DROP TABLE feed;
ALTER TABLE sales DROP INDEX sales_changes;
ALTER TABLE sales DROP COLUMN change_no;
ALTER TABLE orders DROP INDEX orders_changes;
ALTER TABLE orders DROP COLUMN change_no;
