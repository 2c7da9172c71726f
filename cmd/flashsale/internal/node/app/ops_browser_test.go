package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"flashsale/loadtest/servers"
	"flashsale/loadtest/servers/servertest"
	"flashsale/loadtest/servers/servertest/check"
)

// The page of operators shows figures of one snapshot while units sell, and hides the sales of
// load tests. A reload restores the charts. The log contains a restock and a new keeper.
// If the node dies, the page turns grey and shows the time of its figures.
func TestOperatorsInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	s := servertest.Open(t, servers.KindEmbedded)
	inDemo := func(node string) func(*Config) { return func(c *Config) { often(node)(c); c.Demo = true } }
	n := start(t, s, inDemo("one"))
	n.put("S", 9, 5, 900)
	n.put("judged", 7, 2, 900, func(all map[string]any) { all["name"] = "Load test: Flash sale" })
	op := visit(t, chromium, n.URL()+"/ops#%") // names no sale
	op.until(`document.getElementById('law').dataset.state === 'holds' && ` + hasText("law-sum", "total 9 = available 9 + queued 0 + pending 0 + paid 0 + restoring 0"))
	op.until(`document.querySelector('#judged').hidden && !document.querySelector('#sales [data-key=judged]')`)
	op.click("#fold")
	op.until(`document.querySelector('#judged [data-key=judged]').getClientRects().length > 0`)

	// A mark that is in the history and in a snapshot is drawn once.
	op.until(`(() => {
		const ask = fetch, fill = CanvasRenderingContext2D.prototype.fillText, marks = [{ at: Date.now(), what: 'cut', units: 1 }];
		const stream = 'event: history\ndata: ' + JSON.stringify({ points: [], marks }) + '\n\nevent: sale\ndata: ' + JSON.stringify({ marks }) + '\n\n';
		window.fetch = (path, how) => path.endsWith('sku=judged') ? Promise.resolve(new Response(stream)) : ask(path, how);
		window.drawn = new Set();
		CanvasRenderingContext2D.prototype.fillText = function (words, x, y) {
			if (words === 'cut') drawn.add(y);
			fill.call(this, words, x, y);
		};
		location.hash = '#judged';
		return true;
	})()`)
	op.until(`drawn.size === 1 && (location.hash = '#S', true)`)
	op.until(hasText("law-sum", "total 9 ") + ` && ` + logged("Opened", "S: 9 units are on sale."))

	// The page's figures are compared at each change.
	op.until(`(() => {
		window.wrong = [];
		new MutationObserver(() => {
			const row = [...document.querySelectorAll('#sales [data-key=S] td')].map(cell => parseInt(cell.textContent));
			const law = [...document.getElementById('law-sum').textContent.matchAll(/\d+/g)].map(Number); // total, available, queued, pending, paid, restoring
			const [, sold, pending, paid, available] = row;
			if (sold !== pending + paid || law.length && [pending, paid, available].join() !== [law[3], law[4], law[1]].join()) wrong.push([row, law].join(' / '));
		}).observe(document.getElementById('sales'), { subtree: true, childList: true });
		return true;
	})()`)
	for i := range 3 {
		where := n.orderBy("S", "ann", fmt.Sprint("k", i)).want(201).where()
		if i > 0 {
			n.pay("ann", where, fmt.Sprint("p", i)).want(200)
		}
	}
	op.until(hasText("law-sum", "total 9 = available 6 + queued 0 + pending 1 + paid 2 + restoring 0") + ` && ` + cells("S", "On sale", "3 of 9", "1", "2", "6", "0", "–", "one"))
	op.until(`wrong.length === 0 || (document.body.textContent = wrong.join(', '), false)`)

	op.do(chromedp.Reload())
	op.until(`(() => { // move the pointer along the chart until the legend shows an order
		const over = document.querySelector('#rates .u-over'), box = over?.getBoundingClientRect();
		if (!box) return false;
		window.x = ((window.x || 0) + 2) % box.width;
		over.dispatchEvent(new MouseEvent('mousemove', { clientX: box.x + x, clientY: box.y + 9 }));
		return parseFloat(document.querySelector('#rates .u-series:nth-child(2) .u-value').textContent) > 0;
	})()`)

	n.put("S", 12, 5, 900)
	op.until(logged("Restocked", "S: 3 units more, 12 in all."))
	two := start(t, s, often("two"))
	watch(t, two.URL(), "", two.token("op", true)).until("the event log of two has begun", "overview", func(e seen) bool { return e.Point.At > 0 })
	check.OK(t, n.stop())
	op.until(hasText("missing", "No connection to this node.") + ` && document.getElementById('board').classList.contains('lost') &&
		document.getElementById('law').dataset.state === '' && /^At [0-9:]+: The units add up/.test(document.getElementById('law-word').textContent)`)
	op.accessible("the node is dead")
	op.do(chromedp.Navigate(two.URL() + "/ops#S"))
	op.until(`!document.getElementById('sign').hidden`) // two is not a demo
	signIn(op, "rubbish")
	op.until(hasText("answer", "That token is not accepted"))
	signIn(op, two.token("op", true))
	op.until(logged("Keeper changed", "S: It is this node now."))
}

// An operator sees a failing webhook, restocks, rebuilds and closes a sale and finds its orders. If
// another operator has changed the sale in between, a restock changes nothing, and a second try
// succeeds.
func TestActionsInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) {
		often("one")(c)
		c.Demo, c.TraceURL = true, "https://traces.test/find?order={order}"
		c.Changes, c.Webhook = true, map[string]string{"shop": "http://127.0.0.1:1/"} // port 1 is closed
	})
	n.put("S", 5, 2, 900)
	id := n.order("S", "ann").want(201).id()
	n.put("few", 1, 1, 900)
	n.order("few", "ann").want(201)
	op := visit(t, chromium, n.URL()+"/ops#S")
	op.until(logged("Sold out", "few: No unit is left."))
	op.until(`/^Failing: \d+ attempts?\|.*connection refused$/.test([...document.querySelectorAll('#webhooks [data-key=shop] td')].map(cell => cell.textContent).join('|'))`)
	ask := func(action string) {
		t.Helper()
		op.click(`[data-action=` + action + `]`)
		op.until(`document.getElementById('ask').open`)
	}
	ask("restock")
	op.until(hasText("ask-says", "Total is 5, of which 4 are available."))
	n.put("S", 6, 2, 900).ok() // another operator changes the sale first
	op.until(`(document.getElementById('units').value = 10, true)`)
	op.click("#ask-yes")
	op.until(hasText("ask-answer", "Nothing was changed: another operator") + ` && ` + hasText("ask-says", "Total is 6, of which 5 are available."))
	op.click("#ask-yes")
	op.until(`!document.getElementById('ask').open && ` + hasText("answer", "Restocked: total is 16 now."))
	ask("restock")
	op.until(`(document.getElementById('units').value = -16, true)`)
	op.click("#ask-yes")
	op.until(hasText("wrong-units", "The total would be lower than"))
	op.until(`(document.getElementById('units').value = -17, true)`)
	op.click("#ask-yes")
	op.until(hasText("wrong-units", "The total must be 0 to 1,000,000,000 units."))
	op.click("#ask-no")
	ask("rebuild")
	op.click("#ask-yes")
	op.until(hasText("answer", "Rebuilt: 15 available, 1 sold.") + ` && ` + logged("Gate rebuilt", "S"))
	ask("close")
	op.click("#ask-yes")
	op.until(hasText("answer", "Closed.") + ` && ` + cells("S", "Closed", "1 of 16", "1", "0", "15", "0", "–", "one") + ` && document.querySelector('[data-of=p99_ms]').textContent === '–'`)
	op.until(`document.body.dispatchEvent(new Event('pointerdown', { bubbles: true })) && document.getElementById('answer').textContent === ''`)

	find := func(what string) {
		t.Helper()
		op.until(`(document.getElementById('what').value = '` + what + `', document.getElementById('find').requestSubmit(), true)`)
	}
	for _, what := range []string{id, "ann"} {
		find(what)
		op.until(`[...document.querySelectorAll('#orders a')].at(-1)?.href === 'https://traces.test/find?order=` + id + `'`)
		op.until(`[...document.querySelectorAll('#orders code')].at(-1)?.textContent === '` + id + `' && document.getElementById('orders').textContent.includes('ann, key k, ')`)
	}
	// The More button continues the list of the buyer that is shown, even if another buyer
	// has been typed into the search field.
	n.put("T", 40, 40, 900)
	for i := range 21 {
		n.orderBy("T", "eve", fmt.Sprint("k", i)).want(201)
	}
	find("eve")
	op.until(`document.querySelectorAll('#orders li').length === 20 && (document.getElementById('what').value = 'bob', true)`)
	op.click("#more")
	op.until(`document.querySelectorAll('#orders li').length === 21`)

	// A late response to an earlier search is not shown.
	op.until(`(() => {
		const real = fetch;
		window.fetch = async (path, how) => {
			const answer = await real(path, how), { status, headers } = answer, body = await answer.json();
			if (path.endsWith('buyer=ann&cursor=')) await new Promise(go => { window.late = () => { go(); setTimeout(() => { window.came = true; }); }; });
			return { status, headers, json: async () => body };
		};
		return true;
	})()`)
	find("ann")
	op.until(`!!window.late`)
	find("nobody")
	op.until(hasText("found", "There is no order of nobody."))
	op.until(`(late(), true)`)
	op.until(`!!window.came`)
	op.until(hasText("found", "There is no order of nobody.") + ` && document.getElementById('found').dataset.kind === 'wait'`)
}

// Without a terminal, an operator creates the first sale and changes its price, window and limit
// after a review. If another operator has changed the sale in between, the page keeps the entries,
// shows the new state, and asks again. A fault is shown at its field, in the words of the form.
func TestTermsInTheBrowser(t *testing.T) {
	t.Parallel()
	n := start(t, servertest.Open(t, servers.KindEmbedded), often("one"))
	op := visit(t, browser(t), n.URL()+"/ops")
	signIn(op, n.token("op", true))
	op.until(hasText("none", "There is no sale yet.") + ` && !document.getElementById('none').hidden`)
	enter := func(fields ...string) {
		t.Helper()
		for i := 0; i < len(fields); i += 2 {
			op.until(fmt.Sprintf(`(() => { const field = document.querySelector('#terms [name=%s]'); field.value = %q; return field.dispatchEvent(new Event('input', { bubbles: true })); })()`, fields[i], fields[i+1]))
		}
		op.click("#ask-yes")
	}
	create := func() {
		t.Helper()
		op.click("[data-action=create]")
		op.until(`document.getElementById('ask').open && document.querySelector('#terms [name=currency]').value === 'EUR'`)
	}
	create()
	enter("sku", "shoe", "name", "A Toe shoe", "price", "129.50", "total", "40", "currency", "eur")
	wrong := func(name, words string) string {
		return fmt.Sprintf(`(field => field.getAttribute('aria-invalid') === 'true' && document.getElementById(field.getAttribute('aria-describedby')).textContent === '%s')(document.querySelector('#terms [name=%s]'))`, words, name)
	}
	op.until(wrong("currency", "Currency must be three capital letters, as in ISO 4217.") + ` && document.activeElement.name === 'currency'`)
	enter("currency", "EUR", "price", "99999999", "opens_at", "2030-01-01T00:00", "closes_at", "2029-01-01T00:00")
	op.until(wrong("price", "Price must be 0 to 10,000,000.") + ` && ` + wrong("closes_at", "Closes must be after “Opens”.") + ` && document.activeElement.name === 'price' && !document.querySelector('[name=currency][aria-invalid=true]')`)
	op.until(`document.activeElement.dispatchEvent(new Event('input', { bubbles: true })) && document.querySelectorAll('[aria-invalid=true]').length === 1`)
	enter("price", "129.505")
	op.until(wrong("price", "Price has too many decimals for EUR.") + ` && document.activeElement.name === 'price'`)
	enter("price", "129.50", "opens_at", "", "closes_at", "")
	op.until(hasText("answer", "Created: A Toe shoe (shoe), 40 units at €129.50.") + ` && ` + hasText("name", "A Toe shoe (shoe)") + ` && document.querySelector('#sales [data-key=shoe] th').innerText.trim() === 'A Toe shoe\nshoe'`)
	var sale struct {
		Name, Currency string
		Price, Total   int64
		Limit          int64     `json:"per_buyer_limit"`
		Opens          time.Time `json:"opens_at"`
		Closes         time.Time `json:"closes_at"`
	}
	n.send("GET", "/v1/sales/shoe", "", "").into(t, &sale)
	if sale.Price != 12950 || sale.Total != 40 || sale.Limit != 1 || sale.Closes.Sub(sale.Opens) != 24*time.Hour || sale.Opens.After(time.Now()) {
		t.Errorf("sale of the form: got %+v, want 40 units at 129.50, one per buyer, open now for 24 hours", sale)
	}
	create()
	enter("sku", "shoe", "price", "1", "total", "1")
	op.until(hasText("ask-answer", "Nothing was changed: there is a sale with this SKU already."))
	op.click("#ask-no")

	op.click("[data-action=change]")
	op.until(`document.getElementById('ask').open && document.querySelector('#terms [name=sku]').disabled && document.querySelector('#terms [name=price]').value === '129.50'`)
	op.click("#ask-yes")
	op.until(hasText("ask-answer", "Nothing is different."))
	enter("price", "99", "per_buyer_limit", "3", "closes_at", "2999-01-01T00:00")
	op.until(hasText("ask-answer", "Price: 129.50 → 99.00\nCloses: ") + ` && document.getElementById('ask-answer').textContent.endsWith('\nUnits per buyer: 1 → 3') && ` + hasText("ask-yes", "Confirm"))
	n.put("shoe", 40, 1, 700, func(all map[string]any) { // by another operator
		all["name"], all["price"], all["opens_at"], all["closes_at"] = "A boot", 12950, sale.Opens, sale.Closes
	}).ok()
	op.click("#ask-yes")
	op.until(hasText("ask-answer", "Nothing was changed: another operator has changed this sale.") + ` && ` + hasText("ask-title", "Change A boot (shoe)?"))
	op.until(`document.getElementById('ask-answer').textContent.includes('Name: A Toe shoe → A boot\nSeconds to pay: 900 → 700')`)
	op.click("#ask-yes")
	op.until(hasText("ask-yes", "Confirm"))
	op.click("#ask-yes")
	op.until(hasText("answer", "Changed: A boot (shoe)."))
	opened := sale.Opens
	check.Eventually(t, "the terms of both operators are shown", func() bool {
		n.send("GET", "/v1/sales/shoe", "", "").into(t, &sale)
		return sale.Name == "A boot" && sale.Price == 9900 && sale.Limit == 3 && sale.Closes.After(opened.AddDate(900, 0, 0)) && sale.Opens.Equal(opened)
	})
}

// The charts show the time range that the operator chooses. Durable orders do not cover accepted
// ones, and dashed lines are explained. A crowd comes to the sale shown. Then all pages offer to stop
// the crowd. The shop does not announce a crowd after the last unit was sold.
func TestRangeAndCrowdInTheBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	n := start(t, servertest.Open(t, servers.KindEmbedded), func(c *Config) { often("one")(c); c.Demo = true })
	n.put("S", 9, 1, 900)
	n.put("T", 9, 1, 900)
	op := visit(t, chromium, n.URL()+"/ops#T", `{
		const ask = fetch, points = JSON.stringify([...Array(120)].map((_, i) => ({ at: Date.now() - (120 - i) * 5000, accepted: 1, failed: 0 })));
		let rest = '';
		const longer = new TransformStream({ transform: (text, out) => { // event by event
			const events = (rest + text).split('\n\n');
			rest = events.pop();
			for (const event of events) out.enqueue(event.replace(/"points":\[.*?\]/, '"points":' + points) + '\n\n');
		} });
		const draw = CanvasRenderingContext2D.prototype.stroke, strokes = window.strokes = {}, dashes = window.dashes = {}; // largest width of a line, and number of its dashes, by colour
		CanvasRenderingContext2D.prototype.stroke = function (...path) { window.failed ||= this.strokeStyle === color('--bad') && [...Array(this.canvas.height).keys()].some(y => this.isPointInStroke(path[0], this.canvas.width / 2, y)); dashes[this.strokeStyle] = this.getLineDash().length; strokes[this.strokeStyle] = Math.max(strokes[this.strokeStyle] || 0, this.lineWidth); draw.apply(this, path); };
		window.color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
		window.fetch = async (path, how) => {
			const answer = await ask(path, how);
			return path === 'v1/live' ? new Response(answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(longer).pipeThrough(new TextEncoderStream())) : answer;
		};
	}`)
	shows := func(from, to string) string { // the time at the left edge is from to to seconds ago
		return `(() => {
			const over = document.querySelector('#rates .u-over'), box = over?.getBoundingClientRect();
			if (!box) return false;
			over.dispatchEvent(new MouseEvent('mousemove', { clientX: box.x + 1, clientY: box.y + 9 }));
			const [h, m, s] = document.querySelector('#rates .u-value').textContent.split(':').map(Number), now = new Date();
			const ago = ((now.getHours() - h) * 3600 + (now.getMinutes() - m) * 60 + now.getSeconds() - s + 86400) % 86400;
			return ago >= ` + from + ` && ago <= ` + to + `;
		})()`
	}
	op.until(shows("500", "630"))
	op.until(`strokes[color('--band')] > strokes[color('--ink')] + 2 && failed === false && !dashes[color('--band')] && dashes[color('--ink')] &&
		getComputedStyle(document.querySelector('#rates .u-series:last-child .u-marker')).borderTopStyle === 'dashed' && document.querySelector('#p99 + .key').textContent.startsWith('500 ms: slow')`)
	op.until(`(() => { const range = document.getElementById('range'); range.value = '60'; return range.dispatchEvent(new Event('change')); })()`)
	op.until(shows("20", "90"))
	op.click("#crowd")
	op.until(hasText("answer", "A crowd is coming: 1 order per second for 5 min."))
	check.Eventually(t, "the crowd orders from T", func() bool { return !n.audit("T").has(`"available":9`) })
	n.audit("S").contains(`"available":9`)

	n.put("few", 2, 1, 900)
	buyer := visit(t, chromium, n.URL()+"/#few")
	buyer.until(hasText("crowd", "Stop the other crowd") + ` && ` + left("2"))
	op.do(chromedp.Reload())
	op.until(`/^Stop the crowd · [1-5] min$/.test(document.getElementById('crowd').textContent)`)
	buyer.click("#crowd")
	buyer.until(hasText("answer", "The crowd leaves."))
	op.until(hasText("crowd", "Send a crowd"))
	check.Eventually(t, "a crowd comes to the sale of the shop's page after the other has left", func() bool {
		buyer.until(hasText("crowd", "Send a crowd") + ` && (document.getElementById('answer').textContent = '', true)`)
		buyer.click("#crowd")
		buyer.until(`document.getElementById('answer').textContent !== ''`)
		return eval[bool](buyer, hasText("answer", "A crowd is coming: "))
	})
	buyer.until(`document.getElementById('state').textContent === 'Sold out' && document.getElementById('answer').textContent === ''`)
}

// cells is a condition: the row of a sale has these cells after its name.
func cells(sku string, want ...string) string {
	return fmt.Sprintf("[...document.querySelectorAll('tr[data-key=%s] td')].map(cell => cell.textContent).join('|') === '%s'", sku, strings.Join(want, "|"))
}

// logged is a condition: the log has an entry with this title that contains text.
func logged(what, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#log li')].some(li => li.querySelector('b').textContent === '%s' && li.textContent.includes('%s'))", what, text)
}

func signIn(b *tab, token string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(document.getElementById('token').value = '%s', document.getElementById('sign').requestSubmit(), true)", token))
}
