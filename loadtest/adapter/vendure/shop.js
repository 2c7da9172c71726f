// A shop of Vendure with its default settings and a payment method that authorizes each
// payment. The first start creates the tables and the data that a checkout needs.
process.env.VENDURE_DISABLE_TELEMETRY = 'true'; // no traffic other than loopback
const { bootstrap, dummyPaymentHandler, Country, DefaultLogger, LogLevel, TransactionalConnection } = require('@vendure/core');
const { populateInitialData } = require('@vendure/core/cli');

const config = {
    apiOptions: { hostname: '127.0.0.1', port: 3111 },
    dbConnectionOptions: { type: 'mariadb', host: '127.0.0.1', port: 3316, username: 'root', password: '', database: 'vendure', synchronize: true },
    paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
    logger: new DefaultLogger({ level: LogLevel.Warn }),
};

const data = {
    defaultLanguage: 'en',
    defaultZone: 'Europe',
    countries: [{ code: 'DE', name: 'Germany', zone: 'Europe' }],
    taxRates: [{ name: 'Zero', percentage: 0 }],
    shippingMethods: [{ name: 'Standard', price: 0 }],
    paymentMethods: [{ name: 'Dummy', handler: { code: dummyPaymentHandler.code, arguments: [{ name: 'automaticSettle', value: 'false' }] } }],
    collections: [],
};

bootstrap(config).then(async app => {
    const empty = (await app.get(TransactionalConnection).rawConnection.getRepository(Country).count()) === 0;
    if (empty) await populateInitialData(app, data);
    console.log('ready');
});
