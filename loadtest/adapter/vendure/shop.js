// A shop of Vendure with its default settings, with a payment method that always succeeds.
// The first start creates the tables and the data that a checkout needs.
const { bootstrap, dummyPaymentHandler, DefaultLogger, LogLevel, LanguageCode, TransactionalConnection, Country } = require('@vendure/core');
const { populateInitialData } = require('@vendure/core/cli');

const config = {
    apiOptions: { hostname: '127.0.0.1', port: Number(process.env.PORT || 3111), adminApiPath: 'admin-api', shopApiPath: 'shop-api' },
    authOptions: { superadminCredentials: { identifier: 'superadmin', password: 'superadmin' } },
    dbConnectionOptions: {
        type: 'mariadb', host: '127.0.0.1', port: Number(process.env.DB_PORT || 3316),
        username: 'root', password: '', database: 'vendure', synchronize: true,
    },
    paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
    logger: new DefaultLogger({ level: LogLevel.Warn }),
};

const data = {
    defaultLanguage: LanguageCode.en,
    defaultZone: 'Europe',
    countries: [{ code: 'DE', name: 'Germany', zone: 'Europe' }],
    taxRates: [{ name: 'Zero', percentage: 0 }],
    shippingMethods: [{ name: 'Standard', price: 0 }],
    paymentMethods: [{ name: 'Dummy', handler: { code: 'dummy-payment-handler', arguments: [{ name: 'automaticSettle', value: 'false' }] } }],
    collections: [],
};

bootstrap(config).then(async app => {
    if (!(await app.get(TransactionalConnection).rawConnection.getRepository(Country).count())) {
        await populateInitialData(app, data);
    }
    console.log('ready');
});
