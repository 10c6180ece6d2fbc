// The console's main module: asks the server for its status once a second and shows it.

import {get, part, post, token, wantsToken} from './api.js';
import {Pipeline} from './pipeline.js';
import {Try} from './try.js';
import {find, make, say} from './text.js';

const kLook = 1000;   // ms between two requests for the status
const kSlow = 5;      // versions and errors are refreshed at every fifth request for the status
const kLoad = 1800e3; // longest time in ms for a load with its compilation, verification and swap

const pipeline = new Pipeline();
const trial = new Try();
let before = null;    // the previous status and when it was requested
let partitions = null;

const keyOf = (model) => `${model.name} version ${model.version}`;

// Choosing the model that the page shows.

function chosen(models) {
  const select = find('model');
  const keys = models.map(keyOf);
  if (JSON.stringify(keys) !== JSON.stringify([...select.options].map((o) => o.value))) {
    const kept = select.value;
    select.replaceChildren(...keys.map((key) => make('option', {value: key}, key)));
    if (keys.includes(kept)) select.value = kept;
    select.disabled = keys.length < 2;
  }
  return models.find((model) => keyOf(model) === select.value) ?? null;
}

function connection(text, kind) {
  say(find('connection'), text);
  find('connection').className = `badge ${kind}`;
}

async function look() {
  const asked = performance.now();
  const status = await get('/v2/millrace/status');
  const model = chosen(status.models);
  if (!model) {
    connection('no model is served', 'warn');
    pipeline.clear();
    trial.hide();
    before = null;
    return;
  }
  const same = (m) => keyOf(m) === keyOf(model) && m.digest === model.digest;
  if (!partitions?.models.some((m) => keyOf(m) === keyOf(model)) || !before?.status.models.some(same))
    partitions = await get('/v2/millrace/partitions');
  pipeline.show(model, before?.status.models.find(same) ?? null, (asked - (before?.asked ?? asked)) / 1000,
    partitions.models.find((m) => keyOf(m) === keyOf(model))?.partitions ?? []);
  before = {status, asked};
  connection(model.ready ? 'ready' : 'not ready', model.ready ? 'good' : 'bad');
  await trial.show(model.name, model.version);
}

// Listing, loading and unloading versions.

function action(text, label, run) {
  const button = make('button', {type: 'button', 'aria-label': label}, text);
  button.addEventListener('click', async () => {
    button.disabled = true;
    await administer(label, run);
    button.disabled = false;
  });
  return button;
}

async function administer(what, run) {
  const result = find('admin-result');
  result.className = '';
  say(result, `${what} …`);
  try {
    await run();
    say(result, `${what}: done`);
  } catch (error) {
    result.className = 'bad';
    const hint = wantsToken(error) ? ' (enter an admin token below)' : '';
    if (hint) find('admin').open = true;
    say(result, `${what}: ${error.message}${hint}`);
  }
  await showVersions().catch(() => {});
}

function loadModel(name, version, policy) {
  const parameters = {};
  if (version) parameters.version = version;
  if (policy && policy !== 'auto') parameters.policy = policy;
  return post(`/v2/repository/models/${part(name)}/load`, JSON.stringify({parameters}), {}, kLoad);
}

let shownVersions = '';
async function showVersions() {
  const index = await post('/v2/repository/index', '');
  const text = JSON.stringify(index);
  if (text === shownVersions) return;
  shownVersions = text;
  find('versions').replaceChildren(...index.map((entry) => {
    const state = entry.state ?? 'UNKNOWN', of = `${entry.name}${entry.version ? ` version ${entry.version}` : ''}`;
    const kind = {READY: 'good', LOADING: 'warn', UNLOADING: 'warn'}[state] ?? '';
    const cell = make('td', {}, make('span', {class: `badge ${kind}`}, state.toLowerCase()));
    if (entry.reason) cell.append(make('span', {class: 'reason'}, entry.reason));
    const actions = [action(state === 'READY' ? 'Reload' : 'Load', `${state === 'READY' ? 'Reload' : 'Load'} ${of}`, () => loadModel(entry.name, entry.version))];
    if (state === 'READY')
      actions.push(action('Unload', `Unload ${of}`, () => post(`/v2/repository/models/${part(entry.name)}/unload`,
        JSON.stringify(entry.version ? {parameters: {version: entry.version}} : {}), {}, kLoad)));
    return make('tr', {}, make('th', {scope: 'row'}, entry.name), make('td', {}, entry.version ?? ''), cell, make('td', {}, ...actions));
  }));
  if (index.length && !find('load-name').value) find('load-name').value = index[0].name;
}

// Listing recent errors.

let shownErrors = '';
async function showErrors() {
  const {errors} = await get('/v2/millrace/errors');
  const text = JSON.stringify(errors);
  if (text === shownErrors) return;
  shownErrors = text;
  find('errors').replaceChildren(...(errors.length ? errors.slice(0, 20) : [null]).map((error) => {
    if (!error) return make('li', {}, 'None.');
    const when = new Date(error.unix_ms);
    return make('li', {}, make('time', {datetime: when.toISOString()}, when.toLocaleTimeString()),
      make('span', {class: `badge ${error.level === 'warning' ? 'warn' : 'bad'}`}, error.status ? `${error.status}` : error.level),
      `${error.from === 'request' ? error.target : error.from}: ${error.message}`);
  }));
}

// A plain link cannot send the token, so the page fetches the document itself and offers it as a download.

async function follow(event) {
  if (!token.get()) return;
  event.preventDefault();
  const link = event.currentTarget;
  const answer = await fetch(link.href, {headers: {Authorization: `Bearer ${token.get()}`}, cache: 'no-store'});
  const url = URL.createObjectURL(await answer.blob());
  make('a', {href: url, download: link.getAttribute('download') ?? `millrace-${link.textContent.toLowerCase()}.txt`}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// Refreshing the page.

async function round(count) {
  try {
    await look();
    if (count % kSlow === 0) await Promise.all([showVersions(), showErrors()]);
  } catch (error) {
    before = null;
    if (error.status === 401 || error.status === 403) {
      connection('a token is needed', 'warn');
      find('admin').open = true;
    } else {
      connection(error.status ? error.message : 'the server does not answer', 'bad');
    }
  }
  setTimeout(() => round(count + 1), document.hidden ? 10 * kLook : kLook);
}

find('token').value = token.get();
find('token').addEventListener('change', (event) => token.set(event.target.value.trim()));
for (const link of document.querySelectorAll('footer a')) link.addEventListener('click', (event) => follow(event).catch(() => {}));
find('model').addEventListener('change', () => { before = null; look().catch(() => {}); });
find('load').addEventListener('submit', (event) => {
  event.preventDefault();
  token.set(find('token').value.trim());
  const name = find('load-name').value.trim(), version = find('load-version').value.trim();
  administer(`Load ${name}${version ? ` version ${version}` : ''}`, () => loadModel(name, version, find('load-policy').value));
});
round(0);
