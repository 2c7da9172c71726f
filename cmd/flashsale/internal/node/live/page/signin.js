// The buyer's token. A demo gives each visitor a token. In other shops, the buyer signs in.
const foreign = 'That token is not accepted: it has expired, or another shop signed it.';

// refused drops a token that the node has rejected. In a demo it requests a new token and
// returns true.
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
  $('unstored').hidden = storage !== memory;
  if (demo) return;
  $('sign').hidden = Boolean(buyer);
  $('leave').hidden = !buyer;
}

async function startBuying() {
  if (demo && !tokens.buyer && !await demoToken('buyer')) setTimeout(startBuying, Math.max(2000, limited.until - performance.now()));
  showWho();
  showOrders();
  showClock();
  look();
}

// signIn stores the token and reads the buyer's orders, which checks the token.
async function signIn(token) {
  say('sign-answer', '', '');
  if (!claims(token).sub) return say('sign-answer', 'no', 'That is not a token.');
  tokens.set('buyer', token);
  await startBuying();
  $('order').focus();
}

$('sign')?.addEventListener('submit', event => { event.preventDefault(); signIn($('token').value.trim()); $('token').value = ''; });
$('leave')?.addEventListener('click', () => { tokens.set('buyer', null); buying.orders = []; startBuying(); $('token').focus(); });
