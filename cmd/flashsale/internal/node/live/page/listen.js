const silence = 8000; // a snapshot comes every second; without one for so long the stream is dead

// listen reads a stream of events until it ends, and returns the status that it was
// answered with: 0 where there was no answer.
async function listen(path, token, stop, heard) {
  const dead = new AbortController();
  let deadline = setTimeout(() => dead.abort(), silence), status = 0;
  try {
    const headers = token ? { Authorization: 'Bearer ' + token } : {};
    const res = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.any([stop, dead.signal]) });
    status = res.status;
    if (!res.ok) return status;
    const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = '';;) {
      const { value, done } = await reader.read();
      if (done) return status;
      clearTimeout(deadline);
      deadline = setTimeout(() => dead.abort(), silence);
      const parts = (text + value).split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const [, event, data] = part.match(/^event: (.*)\ndata: (.*)$/) || [];
        if (event) heard(event, JSON.parse(data));
      }
    }
  } catch {
    return status;
  } finally {
    clearTimeout(deadline);
    dead.abort();
  }
}
