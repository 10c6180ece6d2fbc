// Shows the figures and the row of cards of a model version, computed from two readings of its status.

import {bytesPerSecond, count, find, make, microseconds, say} from './text.js';

const kHistory = 120;

/** Returns the increase of a counter per second. A counter that decreased was reset, so it is counted from 0. */
function rate(now, before, seconds) {
  if (before === undefined || seconds <= 0) return null;
  return Math.max(0, now >= before ? now - before : now) / seconds;
}

/** Returns a key that identifies a link. The channel does not suffice, because all replicas have the same channels. */
function keyOf(link) {
  return `${link.channel} ${link.producer}`;
}

function sameLink(a, b) {
  return keyOf(a) === keyOf(b);
}

export class Pipeline {
  constructor() {
    this.history = [];
    this.cards = new Map();
    this.links = new Map();
    this.shape = '';
  }

  /** Shows a model as /v2/millrace/status describes it. `before` is its previous description, or null. */
  show(model, before, seconds, partitions) {
    const framesPerSecond = rate(model.completed, before?.completed, seconds);
    say(find('rate'), count(framesPerSecond));
    say(find('p50'), microseconds(model.latency_us.p50));
    say(find('p99'), microseconds(model.latency_us.p99));
    say(find('occupancy'), `${model.in_flight} of ${model.slots}`);
    say(find('queue'), `${model.queued} of ${model.queue_capacity}`);
    say(find('failed'), count(model.failed));
    say(find('refused'), count(model.refused));
    if (framesPerSecond !== null) this.draw(framesPerSecond);
    this.arrange(model, partitions);
    model.cards.forEach((card) => this.showCard(card, before?.cards.find((c) => c.card === card.card), seconds));
    model.links.forEach((link) => this.showLink(link, before?.links.find((l) => sameLink(l, link)), seconds));
  }

  /** Empties the figures and cards, because no model is served. */
  clear() {
    for (const id of ['rate', 'p50', 'p99', 'occupancy', 'queue', 'failed', 'refused']) say(find(id), '–');
    find('pipeline').replaceChildren();
    this.shape = '';
  }

  draw(value) {
    this.history.push(value);
    if (this.history.length > kHistory) this.history.shift();
    const top = Math.max(1, ...this.history);
    const points = this.history.map((v, i) => `${(kHistory - this.history.length + i + 1).toFixed(1)},${(31 - 29 * v / top).toFixed(2)}`);
    const first = kHistory - this.history.length + 1;
    find('history').innerHTML = '';
    for (const [kind, d] of [['area', `M${first},32 L${points.join(' ')} L${kHistory},32 Z`], ['', `M${points.join(' ')}`]]) {
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      if (kind) path.setAttribute('class', kind);
      path.setAttribute('d', d);
      find('history').append(path);
    }
    say(find('history-top'), count(top));
  }

  /** Creates the page elements of the cards and links, unless these are the same as before. */
  arrange(model, partitions) {
    const shape = JSON.stringify([model.name, model.version, model.cards.map((c) => [c.endpoint, c.card]), model.links.map(keyOf), partitions.map((p) => p.name)]);
    if (shape === this.shape) return;
    this.shape = shape;
    this.cards.clear();
    this.links.clear();
    const row = [];
    let replica = -1;
    for (const card of model.cards) {
      if (model.replicas > 1 && card.replica !== replica) {
        replica = card.replica;
        row.push(make('li', {class: 'replica'}, make('h3', {}, `Replica ${replica + 1}`)));
      }
      row.push(this.makeCard(card, partitions.filter((p) => p.endpoint === card.endpoint)));
      for (const link of model.links.filter((l) => l.producer === card.card)) row.push(this.makeLink(link));
    }
    find('pipeline').classList.toggle('several', model.replicas > 1);
    find('pipeline').replaceChildren(...row);
  }

  makeCard(card, partitions) {
    const nodes = partitions.flatMap((p) => p.nodes);
    const parts = {
      state: make('span', {class: 'badge'}),
      rate: make('strong'),
      busy: make('strong'),
      meter: make('meter', {min: 0, max: 1, 'aria-label': `${card.card} busy`}),
      more: make('p', {class: 'hint'}),
    };
    parts.item = make('li', {class: 'card'},
      make('div', {class: 'card-head'}, make('h3', {title: `endpoint ${card.endpoint}`}, card.card), parts.state),
      make('p', {class: 'nodes'}, `${partitions.map((p) => p.name).join(', ')}: ${nodes.slice(0, 4).join(', ')}${nodes.length > 4 ? ` and ${nodes.length - 4} more` : ''}`),
      make('p', {class: 'figures'}, make('span', {}, parts.rate, ' frames/s'), make('span', {}, parts.busy, ' busy')),
      parts.meter, parts.more);
    this.cards.set(card.card, parts);
    return parts.item;
  }

  makeLink(link) {
    const parts = {text: make('span'), rate: make('span')};
    parts.item = make('li', {class: 'link', title: link.channel}, parts.rate, parts.text);
    this.links.set(keyOf(link), parts);
    return parts.item;
  }

  showCard(card, before, seconds) {
    const parts = this.cards.get(card.card);
    const busy = before ? Math.min(1, rate(card.busy_seconds, before.busy_seconds, seconds)) : card.busy_ratio;
    say(parts.state, card.state);
    parts.state.className = `badge ${card.state === 'up' ? 'good' : 'bad'}`;
    parts.item.classList.toggle('lost', card.state !== 'up');
    say(parts.rate, count(rate(card.frames, before?.frames, seconds)));
    say(parts.busy, `${Math.round(busy * 100)} %`);
    parts.meter.value = busy;
    const more = [];
    if (card.temperature_celsius !== null) more.push(`${card.temperature_celsius} °C`);
    if (card.power_watts !== null) more.push(`${card.power_watts} W`);
    if (card.restarts > 0) more.push(`brought back ${card.restarts} time${card.restarts > 1 ? 's' : ''}`);
    say(parts.more, more.join(', '));
    parts.more.hidden = more.length === 0;
  }

  showLink(link, before, seconds) {
    const parts = this.links.get(keyOf(link));
    const carried = rate(link.bytes, before?.bytes, seconds);
    const stalls = rate(link.stalls, before?.stalls, seconds);
    parts.item.classList.toggle('down', !link.up);
    say(parts.rate, link.up ? (carried === null ? 'link up' : bytesPerSecond(carried)) : 'link down');
    say(parts.text, stalls ? `${count(stalls)} stalls/s` : ' ');
  }
}
