-- +goose Up
-- The same tables as in ../mysql, which has the comments.

CREATE TABLE sales (
    sku              TEXT     NOT NULL PRIMARY KEY,
    name             TEXT     NOT NULL,
    description      TEXT     NOT NULL DEFAULT '',
    image_url        TEXT     NOT NULL DEFAULT '',
    price            INTEGER  NOT NULL,
    currency         TEXT     NOT NULL,
    total            INTEGER  NOT NULL,
    sold             INTEGER  NOT NULL DEFAULT 0,
    per_buyer_limit  INTEGER  NOT NULL,
    opens_at         DATETIME NOT NULL,
    closes_at        DATETIME NOT NULL,
    payment_window_s INTEGER  NOT NULL,
    fence            INTEGER  NOT NULL DEFAULT 0,
    keeper           TEXT     NOT NULL DEFAULT '',
    epoch            INTEGER  NOT NULL DEFAULT 0,
    mode             TEXT     NOT NULL DEFAULT 'gate',
    reserve_on       TEXT     NOT NULL DEFAULT 'order',
    reserve_from     INTEGER  NOT NULL DEFAULT 0,
    created_at       DATETIME NOT NULL,
    updated_at       DATETIME NOT NULL,
    CONSTRAINT sales_never_oversold CHECK (sold >= 0 AND sold <= total)
);

CREATE TABLE orders (
    id              TEXT     NOT NULL PRIMARY KEY,
    sku             TEXT     NOT NULL,
    buyer           TEXT     NOT NULL CHECK (length(buyer) <= 64),
    quantity        INTEGER  NOT NULL,
    amount          INTEGER  NOT NULL,
    currency        TEXT     NOT NULL,
    status          TEXT     NOT NULL,
    reason          TEXT     NOT NULL DEFAULT '',
    idempotency_key TEXT     NULL,
    request_hash    TEXT     NOT NULL,
    payment_ref     TEXT     NULL,
    created_at      DATETIME NOT NULL,
    expires_at      DATETIME NOT NULL,
    paid_at         DATETIME NULL,
    closed_at       DATETIME NULL,
    restored_at     DATETIME NULL,
    hold_id         TEXT     NULL,
    claims          INTEGER  NOT NULL DEFAULT 0
);

CREATE UNIQUE INDEX orders_key ON orders (sku, buyer, idempotency_key);
CREATE INDEX orders_of_buyer ON orders (buyer, created_at, id);
CREATE INDEX orders_to_expire ON orders (status, expires_at);
CREATE INDEX orders_to_restore ON orders (status, restored_at, sku);

CREATE TABLE refunds (
    order_id    TEXT     NOT NULL,
    payment_ref TEXT     NOT NULL,
    sku         TEXT     NOT NULL,
    buyer       TEXT     NOT NULL,
    amount      INTEGER  NOT NULL,
    currency    TEXT     NOT NULL,
    reason      TEXT     NOT NULL,
    created_at  DATETIME NOT NULL,
    PRIMARY KEY (order_id, payment_ref)
);

CREATE INDEX refunds_of_time ON refunds (created_at);

CREATE TABLE nodes (
    id         TEXT     NOT NULL PRIMARY KEY,
    seen_at    DATETIME NOT NULL,
    unwritable TEXT     NOT NULL DEFAULT '',
    barrier    INTEGER  NOT NULL DEFAULT 0,
    stats      TEXT     NOT NULL DEFAULT ''
);

-- +goose Down
DROP TABLE nodes;
DROP TABLE refunds;
DROP TABLE orders;
DROP TABLE sales;
