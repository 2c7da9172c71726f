const silence = 8000; // ms; a stream without a snapshot for this time is dead
let heard = 0; // time of the latest snapshot, or of the end of a pause after it

// All tabs of a browser share six connections to a node. So a hidden page has no stream, and the
// visible pages have at most four: those that were looked at last. since holds the streams of the
// pages that were looked at after this one.
const me = random(), streams = $('board') ? 2 : 1, since = new Map();
const tabs = storage !== memory && new BroadcastChannel('streams'); // throws if storage is blocked
const crowded = () => [...since.values()].reduce((sum, n) => sum + n, streams) > 4;

// idle reports whether the page must have no stream. A new page has one until its first snapshot.
const idle = () => heard > 0 && (document.hidden || crowded());

// silent reports whether the node sends no snapshots.
const silent = () => !idle() && performance.now() - heard > 3000;

function looked() {
  if (!document.hidden) since.clear();
  if (tabs) tabs.postMessage([me, document.hidden ? 0 : streams]);
  dispatchEvent(new Event('turn'));
}

if (tabs) tabs.onmessage = ({ data: [page, n] }) => {
  n ? since.set(page, n) : since.delete(page);
  dispatchEvent(new Event('turn'));
};
for (const event of ['visibilitychange', 'focus', 'click']) addEventListener(event, looked);
looked();

function showLink(state, words) {
  $('link').dataset.state = state;
  text($('link').lastElementChild, words);
}

// keepListening reads a stream while the page is not idle, and reconnects when it ends. It
// returns if stop is aborted, or with the status 401, 403 or 404.
async function keepListening(path, token, stop, handlers) {
  for (let wait = 1000; ; wait = Math.min(wait * 1.6, 10000)) {
    while (idle()) {
      if (crowded()) showLink('paused', 'Paused: click');
      await new Promise(resolve => addEventListener('turn', resolve, { once: true }));
      heard = performance.now();
    }
    if (stop.aborted) return;
    const { status, detail, retry = 0, slept } = await listen(path, token, stop, handlers);
    if (stop.aborted || status === 401 || status === 403) return status;
    if (status === 200) wait = 1000;
    if (slept) continue;
    if (status === 429) tooMany(retry);
    showLink('lost', detail?.includes('watching') ? 'Too many watch' : status === 429 ? 'Too many calls' : 'Reconnecting');
    await pause(Math.max(retry * 1000, wait * (.5 + Math.random()))); // random, so that tabs do not reconnect all at once
    if (status === 404) return status;
  }
}

// listen reads a stream until it ends or the page is idle, and calls the handler with the name
// of each event. It returns the status of the response, 0 without a response. If the status is
// not 200, it also returns the fields of the problem and the wait "retry" in seconds. It
// throws the errors of handlers, which are no faults of the network.
async function listen(path, token, stop, handlers) {
  const end = new AbortController(), { signal } = end, die = () => end.abort();
  let deadline = setTimeout(die, silence), status = 0, slept = false;
  const sleep = () => { if (slept ||= idle()) die(); };
  stop.addEventListener('abort', die, { signal });
  addEventListener('turn', sleep, { signal });
  try {
    const headers = token ? { Authorization: 'Bearer ' + token } : {};
    const res = await fetch(path, { headers, cache: 'no-store', signal }).catch(() => null);
    if (!res) return { status, slept };
    status = res.status;
    if (!res.ok) return { ...await res.json().catch(() => ({})), status, retry: retryAfter(res) };
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = '';;) {
      const { value, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return { status, slept };
      clearTimeout(deadline);
      deadline = setTimeout(die, silence);
      const parts = (text + value).split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const [, event, data] = part.match(/^event: (.*)\ndata: (.*)$/) || [];
        handlers[event]?.(JSON.parse(data));
      }
      sleep();
    }
  } finally {
    clearTimeout(deadline);
    die();
  }
}

// withMarks adds the marks that are not in the history yet.
const withMarks = (marks, more) => [...marks, ...more.filter(m => !marks.some(x => x.at === m.at && x.what === m.what))];

const sendLabel = 'Send a crowd';

// showCrowd shows whether the button sends a crowd to the sale or stops the one of a snapshot.
function showCrowd({ now, crowd }, sku) {
  const left = crowd && Math.max(0, Math.ceil((Date.parse(crowd.until) - Date.parse(now)) / 1000));
  text($('crowd'), !crowd ? sendLabel : crowd.sku === sku ? `Stop the crowd · ${span(left)}` : 'Stop the other crowd');
}

// sendCrowd sends a crowd to a sale of a demo, which is in the given state, or stops the crowd. It
// returns the kind and the words of the answer.
async function sendCrowd(sku, state) {
  const stops = $('crowd').textContent !== sendLabel;
  const { status, body } = await call(stops ? 'DELETE' : 'POST', stops ? 'demo/crowd' : 'demo/crowd?sku=' + sku, { token: await demoToken('operator') });
  if (status === 204) return ['yes', 'The crowd leaves.'];
  const often = body.orders_per_second === 1 ? '1 order' : body.orders_per_second + ' orders', since = state === 'scheduled' ? ', from the opening on' : '';
  return status === 202 ? ['yes', `A crowd is coming: ${often} per second for ${span(body.seconds)}${since}.`] : ['no', body.detail || noAnswer];
}
