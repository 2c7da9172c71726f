const silence = 8000; // a snapshot comes every second; without one for so long the stream is dead

// listen reads a stream of events until it ends. What it returns has the status that it
// was answered with, 0 for none; of a refusal also its problem, and "retry", in seconds.
async function listen(path, token, stop, heard) {
  const dead = new AbortController(), die = () => dead.abort();
  let deadline = setTimeout(die, silence);
  try {
    const headers = token ? { Authorization: 'Bearer ' + token } : {};
    const res = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.any([stop, dead.signal]) });
    if (!res.ok) return { ...await res.json().catch(() => ({})), status: res.status, retry: Number(res.headers.get('Retry-After')) || 1 };
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = '';;) {
      const { value, done } = await reader.read();
      if (done) return { status: res.status };
      clearTimeout(deadline);
      deadline = setTimeout(die, silence);
      const parts = (text + value).split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const [, event, data] = part.match(/^event: (.*)\ndata: (.*)$/) || [];
        if (event) heard(event, JSON.parse(data));
      }
    }
  } catch {
    return { status: 0 };
  } finally {
    clearTimeout(deadline);
    die();
  }
}
