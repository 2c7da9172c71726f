const silence = 8000; // a snapshot comes every second; without one for so long the stream is dead

function showLink(state, words) {
  $('link').dataset.state = state;
  text($('link').lastElementChild, words);
}

// keepListening reads a stream until it is stopped, coming back whenever it ends: a node that
// stops sends us to another one. It ends with the status of a refusal that is for good.
async function keepListening(path, token, stop, heard) {
  for (let wait = 1000; !stop.aborted; wait = Math.min(wait * 1.6, 10000)) {
    const { status, detail, retry = 0 } = await listen(path, token, stop, heard);
    if (stop.aborted || status === 401 || status === 403) return status;
    if (status === 200) wait = 1000;
    if (status === 429) tooMany(retry);
    showLink('lost', detail?.includes('watching') ? 'Too many watch' : status === 429 ? 'Too many calls' : 'Reconnecting');
    await pause(Math.max(retry * 1000, wait * (.5 + Math.random()))); // not all of us at once
    if (status === 404) return status;
  }
}

// listen reads a stream of events until it ends, and hands each to the function in heard
// that has its name. What it returns has the status that it was answered with, 0 for none;
// of a refusal also its problem, and "retry", in seconds.
async function listen(path, token, stop, heard) {
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
        heard[event]?.(JSON.parse(data));
      }
    }
  } catch {
    return { status };
  } finally {
    clearTimeout(deadline);
    die();
  }
}

// withMarks adds marks of a snapshot, of which the history may have some.
const withMarks = (marks, more) => [...marks, ...more.filter(m => !marks.some(x => x.at === m.at && x.what === m.what))];

// sendCrowd has a demo send itself some buyers.
async function sendCrowd() {
  const { status, body } = await call('POST', 'demo/crowd', { token: await demoToken('operator') });
  if (status === 202) return say('answer', 'yes', 'A crowd is on its way: 30 buyers a second for five minutes.');
  say('answer', 'no', body.detail || noAnswer);
}

$('crowd')?.addEventListener('click', sendCrowd);
