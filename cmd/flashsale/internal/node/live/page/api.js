// Tokens and requests to the node. Tokens are stored per tab and end with it. If the browser
// blocks storage, they end with the page.
const demo = 'demo' in document.body.dataset;
const memory = {
  getItem: name => memory[name], setItem: (name, token) => { memory[name] = token; }, removeItem: name => { delete memory[name]; },
};
let storage = memory;
try {
  sessionStorage.setItem('probe', '');
  storage = sessionStorage;
} catch { /* storage is blocked */ }
const tokens = {
  get buyer() { return storage.getItem('buyer'); },
  get operator() { return storage.getItem('operator'); },
  set(role, token) { token ? storage.setItem(role, token) : storage.removeItem(role); },
};

function claims(token) {
  try {
    return JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')));
  } catch {
    return {};
  }
}

// limited holds the end of the wait after too many requests from our address.
const limited = { until: 0, says: '' };
const retryAfter = res => Number(res.headers.get('Retry-After')) || 1;

function tooMany(seconds) {
  limited.until = performance.now() + seconds * 1000;
  limited.says = `Too many requests from your network. The page waits ${seconds} s and then continues.`;
}

// call sends a request and returns its response. The status is 0 if there was no response.
// retry is the wait in seconds that the node asks for.
async function call(method, path, { token, body, headers = {} } = {}) {
  if (token) headers.Authorization = 'Bearer ' + token;
  if (body) headers['Content-Type'] = 'application/json';
  const slow = new AbortController(), timer = setTimeout(() => slow.abort(), 15000);
  const res = await fetch(path, {
    method, headers, body: body && JSON.stringify(body), cache: 'no-store', signal: slow.signal,
  }).catch(() => null);
  const answer = await res?.json().catch(() => ({}));
  clearTimeout(timer);
  if (!res) return { status: 0, body: {}, retry: 1 };
  if (res.status === 429 && (method === 'GET' || path.startsWith('demo/'))) tooMany(retryAfter(res));
  return { status: res.status, body: answer, location: res.headers.get('Location'), retry: retryAfter(res) };
}

// demoToken requests a token for a new buyer or an operator and stores it.
async function demoToken(role) {
  const { status, body } = await call('POST', 'demo/token?role=' + role);
  if (status !== 200) return null;
  tokens.set(role, body.token);
  return body.token;
}

// random returns a unique key. (crypto.randomUUID needs https or localhost.)
const random = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), b => b.toString(16).padStart(2, '0')).join('');
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
