// Who the buyer is: in a demo whoever opens the page, else whoever has a token.
const foreign = 'That token is not accepted: it has expired, or another shop signed it.'; // said of a token that the node refuses

// refused is for a token that has expired, or is of a server that was here
// before: a demo has another one, and then it is true.
async function refused() {
  tokens.set('buyer', null);
  const another = demo && await demoToken('buyer');
  buying.orders = [];
  showOrders();
  showWho();
  return Boolean(another);
}

function showWho() {
  const buyer = tokens.buyer;
  text($('who'), buyer ? 'as ' + claims(buyer).sub : '');
  if (demo) return;
  $('sign').hidden = Boolean(buyer);
  $('leave').hidden = !buyer;
}

async function startBuying() {
  if (demo && !tokens.buyer && !await demoToken('buyer')) setTimeout(startBuying, Math.max(2000, limited.until - Date.now()));
  showWho();
  showOrders();
  showClock();
  look();
}

// signIn takes a token that was pasted. The first call with it finds out whether it is good.
async function signIn(token) {
  say('sign-answer', '', '');
  if (!claims(token).sub) return say('sign-answer', 'no', 'That is no token.');
  tokens.set('buyer', token);
  await startBuying();
  $('order').focus();
}

$('sign')?.addEventListener('submit', event => { event.preventDefault(); signIn($('token').value.trim()); $('token').value = ''; });
$('leave')?.addEventListener('click', () => { tokens.set('buyer', null); buying.orders = []; startBuying(); $('token').focus(); });
