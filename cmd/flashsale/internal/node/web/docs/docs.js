'use strict';

// Swagger UI is dark if the root has this class.
const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();

const plugin = ({ React }) => ({
  wrapComponents: {
    // Screen readers list the operations as headings.
    OperationSummary: Summary => props => React.createElement('h3', { className: 'operation' }, React.createElement(Summary, props)),
    // By default a path is a link, inside of a button.
    DeepLink: () => props => React.createElement('span', null, props.text),
  },
  statePlugins: {
    spec: {
      // A proxy may serve the node under a prefix, which only the browser knows.
      wrapActions: { updateJsonSpec: update => spec => update({ ...spec, servers: [{ url: new URL('.', location).pathname }] }) },
      // The response to /v1/live does not end, and Swagger UI would wait for it.
      wrapSelectors: { allowTryItOutFor: () => (state, path) => path !== '/v1/live' },
    },
  },
});

// Attributes that Swagger UI leaves out, and screen readers need.
const missing = [
  ['.information-container', 'role', () => 'region'],
  ['.information-container', 'aria-label', () => 'About the API'],
  ['.opblock-tag', 'aria-level', () => 2],
  ['.examples-select-element', 'aria-label', () => 'Example'],
  ['.body-param__text', 'aria-label', () => 'Request body'],
  ['[data-param-name] select', 'aria-label', it => it.closest('[data-param-name]').dataset.paramName],
  ['.responses-table', 'aria-label', it => it.id.replaceAll('_', ' ')],
];
new MutationObserver(() => {
  for (const [selector, name, value] of missing) {
    for (const it of document.querySelectorAll(`${selector}:not([${name}])`)) it.setAttribute(name, value(it));
  }
}).observe(document.getElementById('api'), { childList: true, subtree: true });

const ui = SwaggerUIBundle({
  url: 'openapi.yaml', dom_id: '#api', plugins: [plugin], onComplete: signIn,
  deepLinking: true, tryItOutEnabled: true, displayRequestDuration: true, defaultModelsExpandDepth: 0, syntaxHighlight: { theme: 'obsidian' },
});

// signIn authorizes the page with the tokens of a demo.
async function signIn() {
  for (const role of 'demo' in document.body.dataset ? ['buyer', 'operator'] : []) {
    const answer = await fetch('demo/token?role=' + role, { method: 'POST' });
    const { token, detail } = await answer.json();
    if (answer.ok) ui.preauthorizeApiKey(role, token);
    document.getElementById('tokens').textContent = answer.ok ?
      'This server is a demo. Requests are sent with the token of a new buyer, or of an operator where the API needs one.' :
      'This server is a demo, but the page received no token: ' + detail;
  }
}
