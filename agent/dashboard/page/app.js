// The dashboard: what each overview says, made into elements. Whatever comes from the agent is set as text or as a number,
// never as HTML: tenants' keys are what anybody who may publish wrote.
'use strict';
(() => {
  const HISTORY = 60; // seconds that charts go back
  const TENANT_COLOURS = 8;
  const LEVEL_COLOURS = 6;
  const $ = (id) => document.getElementById(id);

  // ---- elements

  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const svg = (tag, attributes = {}, ...children) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const text = (node, value) => { if (node.textContent !== value) node.textContent = value; };
  const attr = (node, name, value) => { if (node.getAttribute(name) !== value) node.setAttribute(name, value); };
  const paint = (node, property, value) => { if (node.style[property] !== value) node.style[property] = value; };

  // keyed makes the children of a parent those of a list: each keeps its element, and with it focus and selection.
  const keyed = (parent, items, keyOf, make, update) => {
    const have = parent.known || (parent.known = new Map());
    const wanted = new Set();
    let at = parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      wanted.add(key);
      let node = have.get(key);
      if (!node) have.set(key, node = make(item));
      update(node, item);
      if (node === at) at = at.nextElementSibling;
      else parent.insertBefore(node, at);
    }
    for (const [key, node] of have) if (!wanted.has(key)) { node.remove(); have.delete(key); }
  };
  const row = (classes) => () => {
    const tr = el('tr');
    tr.cells_ = classes.map((c) => tr.appendChild(el('td', c ? { class: c } : {})));
    return tr;
  };
  const fill = (tr, values) => values.forEach((value, i) => text(tr.cells_[i], value));

  // ---- words

  const whole = new Intl.NumberFormat('en');
  const count = (n) => whole.format(n);
  const plural = (n, one) => `${count(n)} ${one}${n === 1 ? '' : 's'}`;
  const rate = (n) => (n === 0 ? '0' : n < 10 ? n.toFixed(1) : count(Math.round(n)));
  const percent = (p) => (p > 0 && p < 0.001 ? '<0.1' : (100 * p).toFixed(p < 0.1 ? 1 : 0)) + ' %';
  const span = (s) => {
    if (s < 0) return '–';
    if (s < 0.001) return '<1 ms';
    if (s < 1) return `${Math.round(s * 1000)} ms`;
    if (s < 10) return `${s.toFixed(1)} s`;
    if (s < 120) return `${Math.round(s)} s`;
    if (s < 7200) return `${Math.round(s / 60)} min`;
    if (s < 172800) return `${Math.round(s / 3600)} h`;
    return `${Math.round(s / 86400)} d`;
  };
  // What cannot be seen is named: a key can be made of spaces and marks that turn text around.
  const visible = (s) => s.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\u2028\u2029]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const keyName = (key) => (key === '' ? '(unkeyed)' : visible(key));
  const short = (s, n) => { const all = Array.from(s); return all.length > n ? all.slice(0, n - 1).join('') + '…' : s; };

  // ---- colours

  const levelColour = (i, n) => `var(--l${n <= LEVEL_COLOURS ? i : Math.floor((i * LEVEL_COLOURS) / n)})`;

  // ---- history, per queue

  const memory = new Map();
  const remember = (queue, at) => {
    let m = memory.get(queue.name);
    if (!m) memory.set(queue.name, m = { points: [], colours: new Map() });
    const shares = new Map();
    for (const t of queue.tenants) if (t.share > 0) shares.set(t.key, t.share);
    m.points.push({ at, some: queue.deliveries > 0, shares, quiet: queue.quiet.deliveries ? queue.quiet.waited_seconds : -1, noisy: queue.noisy.deliveries ? queue.noisy.waited_seconds : -1 });
    while (m.points.length && m.points[0].at < at - HISTORY - 5) m.points.shift();
    // Colours are for those who got the most; who has one keeps it while it is among them.
    const sums = new Map();
    for (const p of m.points) for (const [key, share] of p.shares) sums.set(key, (sums.get(key) || 0) + share);
    const top = [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, TENANT_COLOURS - 1).map(([key]) => key);
    for (const key of m.colours.keys()) if (!top.includes(key)) m.colours.delete(key);
    const used = new Set(m.colours.values());
    for (const key of top) {
      if (m.colours.has(key)) continue;
      let c = 0;
      while (used.has(c)) c++;
      used.add(c);
      m.colours.set(key, c);
    }
    return m;
  };
  const tenantColour = (m, key) => (m.colours.has(key) ? `var(--t${m.colours.get(key)})` : 'var(--rest)');

  // ---- charts

  const W = 400, H = 128, EDGE = 34;
  const xOf = (at, now) => (W - EDGE) * (1 - (now - at) / HISTORY);
  const lines = () => {
    const node = svg('svg', { class: 'chart', viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: 'none', role: 'img' });
    node.marks = node.appendChild(svg('g'));
    return node;
  };

  // shareChart draws who got what part of the deliveries, one above the other, and beside it the fair shares.
  const shareChart = (node, m, queue, now) => {
    const order = [...m.colours.keys()].sort((a, b) => m.colours.get(a) - m.colours.get(b));
    const bands = [...order, null]; // null: all others
    const parts = [];
    let run = [];
    const flush = () => {
      if (run.length > 1) {
        let floor = run.map(() => 0);
        for (const key of bands) {
          const roof = run.map((p, i) => (key === null ? 1 : Math.min(1, floor[i] + (p.shares.get(key) || 0))));
          const up = run.map((p, i) => `${xOf(p.at, now).toFixed(1)},${(H * (1 - roof[i])).toFixed(1)}`);
          const down = run.map((p, i) => `${xOf(p.at, now).toFixed(1)},${(H * (1 - floor[i])).toFixed(1)}`).reverse();
          const path = svg('path', { d: `M${up.join('L')}L${down.join('L')}Z` });
          path.style.fill = key === null ? 'var(--rest)' : tenantColour(m, key);
          parts.push(path);
          floor = roof;
        }
      }
      run = [];
    };
    for (const p of m.points) {
      if (p.at < now - HISTORY) continue;
      if (!p.some || (run.length && p.at - run[run.length - 1].at > 16)) flush();
      if (p.some) run.push(p);
    }
    flush();
    let floor = 0;
    const fair = new Map(queue.tenants.map((t) => [t.key, t.fair_share]));
    for (const key of queue.tenants_active ? bands : []) {
      const size = key === null ? 1 - floor : Math.min(1 - floor, fair.get(key) || 0);
      const rect = svg('rect', { x: W - EDGE + 6, width: EDGE - 6, y: (H * (1 - floor - size)).toFixed(1), height: (H * size).toFixed(1) });
      rect.style.fill = key === null ? 'var(--rest)' : tenantColour(m, key);
      parts.push(rect);
      floor += size;
    }
    node.marks.replaceChildren(...parts);
    const said = queue.tenants.filter((t) => t.share > 0).slice(0, 6).map((t) => `${keyName(t.key)} ${percent(t.share)} (fair: ${percent(t.fair_share)})`);
    attr(node, 'aria-label', said.length ? `Shares of the deliveries now: ${said.join(', ')}` : 'Nothing was delivered in the last seconds');
  };

  // waitChart draws how long deliveries had waited, on a scale from 1 ms to 1 h of which each step is ten times the one before.
  const waitChart = (node, m, queue, now) => {
    const y = (s) => H - 6 - ((H - 12) * (Math.log10(Math.min(Math.max(s, 0.001), 3600)) + 3)) / (Math.log10(3600) + 3);
    const parts = [[0.01, '10 ms'], [1, '1 s'], [60, '1 min']].map(([s]) => svg('line', { x1: 0, x2: W, y1: y(s).toFixed(1), y2: y(s).toFixed(1) }));
    for (const [field, colour] of [['noisy', 'var(--t1)'], ['quiet', 'var(--good)']]) {
      let d = '', down = true;
      for (const p of m.points) {
        if (p.at < now - HISTORY) continue;
        if (p[field] < 0) { down = true; continue; }
        d += `${down ? 'M' : 'L'}${(W * (1 - (now - p.at) / HISTORY)).toFixed(1)},${y(p[field]).toFixed(1)}`;
        down = false;
      }
      if (!d) continue;
      const path = svg('path', { d, fill: 'none', 'stroke-width': 2.5, 'stroke-linejoin': 'round', 'stroke-linecap': 'round', 'vector-effect': 'non-scaling-stroke' });
      path.style.stroke = colour;
      parts.push(path);
    }
    node.marks.replaceChildren(...parts);
    attr(node, 'aria-label', `How long deliveries had waited on average: quiet tenants ${queue.quiet.deliveries ? span(queue.quiet.waited_seconds) : 'none'}, noisy tenants ${queue.noisy.deliveries ? span(queue.noisy.waited_seconds) : 'none'}`);
  };

  // ---- a queue

  const COLUMNS = [
    ['Tenant', 'key', ''], ['Waiting', 'waiting', 'num'], ['In flight', 'in_flight', 'num'], ['Weight', 'weight', 'num'], ['Per second', 'delivered_per_second', 'num'],
    ['Share, and fair share ┃', 'share', ''], ['Waited', 'waited_seconds', 'num'], ['Longest', 'longest_wait_seconds', 'num'], ['Oldest', 'oldest_age_seconds', 'num'],
  ];

  const makeQueue = (queue) => {
    const id = `q-${queue.name}`;
    const card = el('article', { class: 'card', 'aria-labelledby': id });
    const part = (parent, tag, attributes, ...children) => parent.appendChild(el(tag, attributes, ...children));
    const head = part(card, 'div', { class: 'head' });
    const h2 = part(head, 'h2', { id });
    h2.append(queue.name);
    const ui = card.ui = { sort: '', up: false };
    ui.paused = part(h2, 'span', { class: 'badge paused' }, 'paused');
    ui.unfair = part(h2, 'span', { class: 'badge' }, 'in order of arrival');
    ui.asOf = part(h2, 'span', { class: 'badge noisy' });
    ui.facts = part(head, 'div', { class: 'facts' });
    ui.factOf = {};
    for (const name of ['waiting', 'in flight', 'delayed', 'dead', 'delivered per second', 'oldest']) {
      ui.factOf[name] = part(ui.facts, 'b', {});
      ui.facts.append(` ${name}${name === 'oldest' ? '' : ' · '}`);
    }
    ui.warnings = part(card, 'div', {});
    ui.verdict = part(card, 'p', { class: 'verdict' });
    const grid = ui.grid = part(card, 'div', { class: 'grid' });

    const levels = part(grid, 'div', {}, el('h3', {}, 'Waiting, by level'));
    ui.stack = part(levels, 'div', { class: 'stack', role: 'img' });
    const table = part(levels, 'table', {}, el('thead', {}, el('tr', {}, ...['Level', 'Waiting', 'In flight', 'Per second', 'Oldest'].map((n, i) => el('th', { scope: 'col', class: i ? 'num' : '' }, n)))));
    ui.levels = part(table, 'tbody', {});

    const shares = part(grid, 'div', {}, el('h3', {}, 'Who got the work, last minute · right: fair shares'));
    ui.shareChart = shares.appendChild(lines());
    ui.legend = part(shares, 'ul', { class: 'legend' });

    const waits = part(grid, 'div', {}, el('h3', {}, 'How long deliveries had waited'));
    const compare = part(waits, 'div', { class: 'compare' });
    ui.classes = {};
    for (const name of ['quiet', 'noisy']) {
      const box = part(compare, 'div', {});
      ui.classes[name] = { who: part(box, 'span', {}), wait: part(box, 'b', {}), more: part(box, 'span', {}) };
    }
    ui.waitChart = waits.appendChild(lines());
    paint(ui.waitChart, 'height', '72px');
    part(waits, 'p', { class: 'hint' }, 'Last minute; lines at 10 ms, 1 s, 1 min');

    const tenants = ui.all = part(card, 'div', { class: 'tenants scroll' });
    const names = el('tr');
    for (const [name, field, kind] of COLUMNS) {
      const button = el('button', { type: 'button', title: `Sort by ${name.toLowerCase()}` }, name);
      const th = el('th', { scope: 'col', class: kind, 'aria-sort': 'none' }, button);
      button.addEventListener('click', () => {
        if (ui.sort === field && ui.up === (field === 'key')) ui.up = !ui.up; // the other way round
        else if (ui.sort === field) ui.sort = ''; // as the agent lists them
        else { ui.sort = field; ui.up = field === 'key'; }
        for (const other of names.children) other.setAttribute('aria-sort', 'none');
        if (ui.sort) th.setAttribute('aria-sort', ui.up ? 'ascending' : 'descending');
        if (ui.again) ui.again();
      });
      names.append(th);
    }
    const list = part(tenants, 'table', {}, el('thead', {}, names));
    attr(list, 'aria-label', `Tenants of ${queue.name}`);
    ui.tenants = part(list, 'tbody', {});
    ui.more = part(tenants, 'p', { class: 'empty' });
    return card;
  };

  const verdict = (queue) => {
    const { noisy, quiet } = queue;
    if (!queue.fair_share) return ['Fair share is off: messages of a level come in order of arrival, whoever sent them.', false];
    if (noisy.tenants === 0) return [queue.tenants_active ? `${plural(queue.tenants_active, 'tenant')} active, none of them noisy.` : 'No tenant is active.', false];
    const loud = queue.tenants.filter((t) => t.noisy);
    const who = noisy.tenants === 1 && loud.length ? `${short(keyName(loud[0].key), 40)} is noisy` : `${plural(noisy.tenants, 'tenant')} are noisy`;
    let said = `${who}: ${count(noisy.waiting)} waiting, ${percent(noisy.waiting / Math.max(1, queue.waiting))} of all, and ${percent(noisy.share)} of the deliveries (fair share: ${percent(noisy.fair_share)}).`;
    if (quiet.tenants === 0) return [said, true];
    if (quiet.deliveries) said += ` What quiet tenants got had waited ${span(quiet.waited_seconds)} on average.`;
    else if (quiet.waiting) said += ` Quiet tenants have ${count(quiet.waiting)} waiting, and got nothing from this agent in the last seconds.`;
    return [said, true];
  };

  const updateLevels = (ui, queue) => {
    const levels = queue.levels;
    keyed(ui.stack, levels.filter((l) => l.waiting > 0), (l) => l.priority, () => el('i'), (i, l) => {
      paint(i, 'flexGrow', String(l.waiting));
      paint(i, 'background', levelColour(l.priority, levels.length));
      attr(i, 'title', `${levelName(l)}: ${count(l.waiting)} waiting`);
    });
    attr(ui.stack, 'aria-label', queue.waiting ? `Waiting by level: ${levels.filter((l) => l.waiting).map((l) => `${levelName(l)} ${count(l.waiting)}`).join(', ')}` : 'Nothing is waiting');
    // Of many levels, those with something on them.
    const shown = levels.length <= 8 ? levels : levels.filter((l) => l.waiting || l.in_flight || l.delayed || l.delivered_per_second).slice(0, 12);
    keyed(ui.levels, shown, (l) => l.priority, () => {
      const tr = row(['', 'num', 'num', 'num', 'num'])();
      tr.swatch = tr.cells_[0].appendChild(el('span', { class: 'swatch' }));
      tr.label = tr.cells_[0].appendChild(el('span'));
      return tr;
    }, (tr, l) => {
      paint(tr.swatch, 'background', levelColour(l.priority, levels.length));
      text(tr.label, levelName(l));
      [count(l.waiting), count(l.in_flight), rate(l.delivered_per_second), l.waiting + l.in_flight ? span(l.oldest_age_seconds) : '–'].forEach((v, i) => text(tr.cells_[i + 1], v));
    });
  };
  const levelName = (l) => (l.name ? `${l.priority} ${l.name}` : String(l.priority));

  const updateTenants = (ui, queue, m) => {
    let list = queue.tenants;
    if (ui.sort) {
      const turn = ui.up ? 1 : -1;
      list = [...list].sort((a, b) => turn * (a[ui.sort] < b[ui.sort] ? -1 : a[ui.sort] > b[ui.sort] ? 1 : 0) || (a.key < b.key ? -1 : 1));
    }
    const scale = Math.max(0.0001, ...list.map((t) => Math.max(t.share, t.fair_share)));
    keyed(ui.tenants, list, (t) => t.key, () => {
      const tr = row(['name', 'num', 'num', 'num', 'num', '', 'num', 'num', 'num'])();
      tr.swatch = tr.cells_[0].appendChild(el('span', { class: 'swatch', 'aria-hidden': 'true' }));
      tr.key = tr.cells_[0].appendChild(el('span', { class: 'key', dir: 'auto' }));
      tr.noisy = tr.cells_[0].appendChild(el('span', { class: 'badge noisy' }, 'noisy'));
      tr.paused = tr.cells_[0].appendChild(el('span', { class: 'badge paused' }, 'paused'));
      const bar = tr.cells_[5].appendChild(el('div', { class: 'bar', role: 'img' }));
      tr.bar = bar;
      tr.share = bar.appendChild(el('i'));
      tr.fair = bar.appendChild(el('u'));
      return tr;
    }, (tr, t) => {
      attr(tr, 'data-key', t.key);
      paint(tr.swatch, 'background', tenantColour(m, t.key));
      text(tr.key, short(keyName(t.key), 60));
      attr(tr.key, 'title', keyName(t.key));
      tr.noisy.hidden = !t.noisy;
      tr.paused.hidden = !t.paused;
      [count(t.waiting), count(t.in_flight), String(t.weight), rate(t.delivered_per_second)].forEach((v, i) => text(tr.cells_[i + 1], v));
      paint(tr.share, 'width', `${((100 * t.share) / scale).toFixed(1)}%`);
      paint(tr.share, 'background', tenantColour(m, t.key));
      paint(tr.fair, 'left', `${((100 * t.fair_share) / scale).toFixed(1)}%`);
      const said = `${percent(t.share)} of the deliveries, fair share ${percent(t.fair_share)}`;
      attr(tr.bar, 'aria-label', said);
      attr(tr.bar, 'title', said);
      const got = t.delivered_per_second > 0;
      [got ? span(t.waited_seconds) : '–', got ? span(t.longest_wait_seconds) : '–', span(t.oldest_age_seconds)].forEach((v, i) => text(tr.cells_[i + 6], v));
    });
    const rest = queue.rest;
    ui.more.hidden = rest.tenants === 0 && queue.tenants.length > 0;
    text(ui.more, rest.tenants ? `and ${plural(rest.tenants, 'more tenant')}: ${count(rest.waiting)} waiting, ${rate(rest.delivered_per_second)} per second, ${percent(rest.share)} of the deliveries (fair share: ${percent(rest.fair_share)})` : 'No tenant has messages here now.');
  };

  const updateQueue = (card, queue, now) => {
    const ui = card.ui;
    const m = memory.get(queue.name);
    ui.paused.hidden = !queue.paused;
    ui.unfair.hidden = queue.fair_share;
    const old = now - Date.parse(queue.as_of) / 1000;
    ui.asOf.hidden = !(old > 3);
    text(ui.asOf, old > 3 ? (old > 1e8 ? 'not looked at yet' : `as it was ${span(old)} ago`) : '');
    const facts = { waiting: count(queue.waiting), 'in flight': count(queue.in_flight), delayed: count(queue.delayed), dead: count(queue.dead), 'delivered per second': rate(queue.delivered_per_second), oldest: queue.waiting + queue.in_flight ? span(queue.oldest_age_seconds) : '–' };
    for (const [name, value] of Object.entries(facts)) text(ui.factOf[name], value);
    keyed(ui.warnings, queue.warnings || [], (w) => w, () => el('p', { class: 'notice' }), (p, w) => text(p, w));
    const [said, loud] = verdict(queue);
    text(ui.verdict, said);
    attr(ui.verdict, 'data-noisy', loud ? 'yes' : 'no');
    // A queue without anything is a line, also in its charts.
    const idle = !queue.tenants_active && !queue.waiting && !queue.in_flight && !queue.delayed && !m.points.some((p) => p.some);
    ui.grid.hidden = ui.all.hidden = ui.verdict.hidden = idle;
    updateLevels(ui, queue);
    shareChart(ui.shareChart, m, queue, now);
    const shown = [...m.colours].sort((a, b) => a[1] - b[1]);
    keyed(ui.legend, [...shown, ['', -1]], (k) => `${k[1]} ${k[0]}`, () => {
      const li = el('li');
      li.swatch = li.appendChild(el('span', { class: 'swatch' }));
      li.label = li.appendChild(el('span', { dir: 'auto' }));
      return li;
    }, (li, [key, c]) => {
      paint(li.swatch, 'background', c < 0 ? 'var(--rest)' : `var(--t${c})`);
      text(li.label, c < 0 ? 'all others' : short(keyName(key), 24));
    });
    for (const name of ['quiet', 'noisy']) {
      const c = queue[name], box = ui.classes[name];
      text(box.who, plural(c.tenants, `${name} tenant`));
      text(box.wait, c.deliveries ? span(c.waited_seconds) : '–');
      text(box.more, `longest ${c.deliveries ? span(c.longest_wait_seconds) : '–'} · oldest message ${c.oldest_age_seconds >= 0 ? span(c.oldest_age_seconds) : '–'}`);
    }
    waitChart(ui.waitChart, m, queue, now);
    updateTenants(ui, queue, m);
    ui.again = () => updateTenants(ui, queue, m);
  };

  // ---- the rest of the page

  const tiles = (o) => {
    const sum = (f) => o.queues.reduce((n, q) => n + f(q), 0);
    const oldest = Math.max(-1, ...o.queues.filter((q) => q.waiting + q.in_flight > 0).map((q) => q.oldest_age_seconds));
    const quiet = o.queues.filter((q) => q.quiet.deliveries > 0);
    const quietWait = quiet.length ? Math.max(...quiet.map((q) => q.quiet.longest_wait_seconds)) : -1;
    const list = [
      ['waiting', count(sum((q) => q.waiting))], ['in flight', count(sum((q) => q.in_flight))], ['delivered per second', rate(sum((q) => q.delivered_per_second))],
      ['age of the oldest message', span(oldest)], ['longest wait of a quiet tenant', span(quietWait)], ['noisy tenants', count(sum((q) => q.noisy.tenants))], ['dead letters', count(sum((q) => q.dead))],
    ];
    keyed($('tiles'), list, (t) => t[0], (t) => {
      const tile = el('div', { class: 'tile' });
      tile.value = tile.appendChild(el('b'));
      tile.append(el('span', {}, t[0]));
      return tile;
    }, (tile, t) => text(tile.value, t[1]));
  };

  const capsules = (s) => {
    const list = s.capsules.flatMap((c) => c.queues.map((q, i) => ({ c, q, first: i === 0 })));
    keyed($('capsules').tBodies[0], list, (x) => `${x.c.name} ${x.q.name}`, row(['name', '', 'why', 'num', 'num', 'num']), (tr, { c, q, first }) => {
      const now = q.why || (c.in_flight || c.credit ? 'works' : 'nothing asked for');
      fill(tr, [first ? c.name : '', q.name, visible(now), first ? `${count(c.in_flight)} of ${count(c.concurrency)}` : '', first ? count(c.credit) : '', first ? count(c.delivered) : '']);
    });
    const leases = list.filter((x) => x.q.lease);
    $('leases').hidden = leases.length === 0;
    keyed($('leases').querySelector('tbody'), leases, (x) => `${x.c.name} ${x.q.name}`, row(['name', '', 'num', 'num', '']), (tr, { c, q }) => {
      fill(tr, [q.name, q.lease_holder ? visible(q.lease_holder) : 'nobody', q.fence ? String(q.fence) : '–', q.lease_holder ? span(q.lease_age_seconds || 0) : '–', `${q.lease.replace('_', ' ')} (${c.name})`]);
    });
  };

  const peers = (s) => {
    $('no-peers').hidden = s.peers.length > 0;
    $('peers').hidden = s.peers.length === 0;
    const role = (p) => (p.demand ? 'works' : 'no app asks') + (p.consumer_priority ? `, priority ${p.consumer_priority}` : '');
    keyed($('peers').tBodies[0], s.peers, (p) => `${p.agent} ${p.capsule}`, row(['name', '', '', '', 'num']), (tr, p) => {
      fill(tr, [visible(p.agent), visible(p.capsule), role(p), p.queues.join(', '), `${span(p.age_seconds)} ago`]);
    });
  };

  const dead = (o, now) => {
    const list = o.queues.flatMap((q) => q.latest).sort((a, b) => (a.died_at < b.died_at ? 1 : a.died_at > b.died_at ? -1 : b.seq - a.seq)).slice(0, 20);
    $('dead').hidden = list.length === 0;
    keyed($('dead').querySelector('tbody'), list, (d) => `${d.queue} ${d.seq}`, row(['name', 'num', 'name', 'num', '', 'num', 'why', 'num']), (tr, d) => {
      fill(tr, [d.queue, String(d.seq), short(keyName(d.key), 40), String(d.priority), d.reason.replace('_', ' '), count(d.attempts), short(visible(d.last_error || '–'), 160), `${span(Math.max(0, now - Date.parse(d.died_at) / 1000))} ago`]);
    });
  };

  const pill = (node, tone, words) => { node.hidden = false; attr(node, 'data-tone', tone); text(node, words); };

  let restarted = 0;
  const notices = (o) => {
    const list = [...(o.problem ? [[o.problem, 'bad']] : []), ...(o.status.warnings || []).map((w) => [w, ''])];
    if (restarted > Date.now()) list.push(['The agent was started again: deliveries are counted anew.', '']);
    keyed($('notices'), list, (n) => n[0], (n) => el('p', { class: `notice ${n[1]}` }), (p, n) => text(p, visible(n[0])));
  };

  let started = '';
  const show = (o) => {
    const s = o.status, now = Date.parse(o.at) / 1000;
    if (started && started !== s.started_at) {
      memory.clear();
      restarted = Date.now() + 10000;
    }
    started = s.started_at;
    text($('agent'), `${s.agent} · ${s.version} · up ${span(s.uptime_seconds)}`);
    document.title = `${s.agent} · Fairlead`;
    pill($('state'), s.state === 'active' ? 'good' : 'wait', s.state);
    const b = s.broker;
    pill($('broker'), b.connected ? 'good' : 'bad', b.connected ? `NATS${b.embedded ? ' (embedded)' : ''} connected` : 'NATS is away');
    attr($('broker'), 'title', [b.url, b.server, b.reconnects ? `reconnected ${b.reconnects} times` : '', b.connected ? '' : b.last_error].filter(Boolean).join(', '));
    notices(o);
    tiles(o);
    if ($('waiting-for-data')) $('waiting-for-data').remove();
    for (const q of o.queues) remember(q, now);
    keyed($('queues'), o.queues, (q) => q.name, makeQueue, (card, q) => updateQueue(card, q, now));
    capsules(s);
    peers(s);
    dead(o, now);
  };

  // ---- the connection

  let source = null, heard = 0, every = 1;
  const cold = (words) => { document.body.classList.add('cold'); pill($('link'), 'wait', words); };
  const connect = () => {
    source = new EventSource('/events');
    source.onmessage = (event) => {
      const o = JSON.parse(event.data);
      heard = Date.now();
      every = o.every_seconds || every;
      document.body.classList.remove('cold');
      pill($('link'), 'good', 'live');
      show(o);
    };
    source.onerror = () => {
      cold('reconnecting…');
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000); // it was refused; browsers give up then
    };
  };
  setInterval(() => {
    if (heard && Date.now() - heard > 1000 * Math.max(6, 4 * every) && source.readyState === EventSource.OPEN) cold(`no news for ${span((Date.now() - heard) / 1000)}`);
  }, 1000);
  connect();
})();
