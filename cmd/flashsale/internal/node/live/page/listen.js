const silence = 8000; // ms; a stream without a snapshot for this time is dead

function showLink(state, words) {
  $('link').dataset.state = state;
  text($('link').lastElementChild, words);
}

// keepListening reads a stream and reconnects when it ends. It returns if stop is aborted, or
// with the status 401, 403 or 404.
async function keepListening(path, token, stop, handlers) {
  for (let wait = 1000; !stop.aborted; wait = Math.min(wait * 1.6, 10000)) {
    const { status, detail, retry = 0 } = await listen(path, token, stop, handlers);
    if (stop.aborted || status === 401 || status === 403) return status;
    if (status === 200) wait = 1000;
    if (status === 429) tooMany(retry);
    showLink('lost', detail?.includes('watching') ? 'Too many watch' : status === 429 ? 'Too many calls' : 'Reconnecting');
    await pause(Math.max(retry * 1000, wait * (.5 + Math.random()))); // random, so that tabs do not reconnect all at once
    if (status === 404) return status;
  }
}

// listen reads a stream until it ends and calls the handler with the name of each event. It
// returns the status of the response, 0 without a response. If the status is not 200, it also
// returns the fields of the problem and the wait "retry" in seconds.
async function listen(path, token, stop, handlers) {
  const dead = new AbortController(), die = () => dead.abort();
  let deadline = setTimeout(die, silence), status = 0;
  try {
    const headers = token ? { Authorization: 'Bearer ' + token } : {};
    const res = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.any([stop, dead.signal]) });
    status = res.status;
    if (!res.ok) return { ...await res.json().catch(() => ({})), status, retry: retryAfter(res) };
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = '';;) {
      const { value, done } = await reader.read();
      if (done) return { status };
      clearTimeout(deadline);
      deadline = setTimeout(die, silence);
      const parts = (text + value).split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const [, event, data] = part.match(/^event: (.*)\ndata: (.*)$/) || [];
        handlers[event]?.(JSON.parse(data));
      }
    }
  } catch {
    return { status };
  } finally {
    clearTimeout(deadline);
    die();
  }
}

// withMarks adds the marks that are not in the history yet.
const withMarks = (marks, more) => [...marks, ...more.filter(m => !marks.some(x => x.at === m.at && x.what === m.what))];

async function sendCrowd() {
  const { status, body } = await call('POST', 'demo/crowd', { token: await demoToken('operator') });
  if (status === 202) return say('answer', 'yes', 'A crowd is coming: 30 buyers per second for five minutes.');
  say('answer', 'no', body.detail || noAnswer);
}

$('crowd')?.addEventListener('click', sendCrowd);
