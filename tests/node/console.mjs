// Tests the console in a real Chromium, against a server that runs LeNet-5 on three cards under load.
//
//   node console.mjs --url http://127.0.0.1:8000 --picture seven.png [--shots DIR] [--token SECRET] [--swap 1] [--refused 3] [--chromium /usr/bin/chromium]
//
// If something is wrong, prints a list of the faults and exits with code 1.
import assert from 'node:assert/strict';
import {mkdirSync} from 'node:fs';
import {parseArgs} from 'node:util';
import {chromium} from 'playwright-core';
import {contrastIsEnough, everythingHasAName} from './page.mjs';

const {values: options} = parseArgs({options: {
  url: {type: 'string'}, picture: {type: 'string'}, shots: {type: 'string'}, token: {type: 'string'}, swap: {type: 'string'}, refused: {type: 'string', default: '0'}, chromium: {type: 'string', default: '/usr/bin/chromium'},
}});
if (options.shots) mkdirSync(options.shots, {recursive: true});

const kPatience = 60000;  // ms; only a failure takes so long

const kLooks = [
  {name: 'desktop-light', viewport: {width: 1280, height: 900}, colorScheme: 'light'},
  {name: 'desktop-dark', viewport: {width: 1280, height: 900}, colorScheme: 'dark'},
  {name: 'phone-light', viewport: {width: 390, height: 844}, colorScheme: 'light', hasTouch: true, isMobile: true, deviceScaleFactor: 2},
  {name: 'phone-dark', viewport: {width: 320, height: 640}, colorScheme: 'dark', hasTouch: true, isMobile: true, deviceScaleFactor: 2},
];

/** Opens the page and records what must not happen: errors, and requests to other servers. */
async function open(browser, look) {
  const context = await browser.newContext(look);
  context.setDefaultTimeout(kPatience);
  const page = await context.newPage();
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of (4|5)\d\d|net::ERR_FAILED/.test(message.text())) page.wrong.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(options.url) && !/^(data|blob):/.test(request.url())) page.wrong.push(`went to ${request.url()}`);
  });
  await page.goto(options.url);
  if (options.token) {
    await until(page, '#connection', 'a token is needed');
    await page.getByLabel('Admin token').fill('not-the-token-at-all');
    await page.getByLabel('Admin token').press('Tab');
    await page.waitForTimeout(1500);
    assert.equal(await textOf(page, '#connection'), 'a token is needed');
    await page.getByLabel('Admin token').fill(options.token);
    await page.getByLabel('Admin token').press('Tab');
  }
  await until(page, '#connection', /^ready$/);
  return page;
}

const textOf = (page, selector) => page.locator(selector).textContent();
const until = (page, selector, pattern) => page.locator(selector, {hasText: pattern}).waitFor();

/** Polls a condition. The page's Content-Security-Policy forbids page.waitForFunction. */
async function untilTrue(page, what, condition) {
  const end = Date.now() + kPatience;
  while (!(await page.evaluate(condition))) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await page.waitForTimeout(100);
  }
}

/** Draws a stroke on the pad with the mouse. Points are fractions of its width and height. */
async function stroke(page, points) {
  await page.locator('.pad').scrollIntoViewIfNeeded();
  const box = await page.locator('.pad').boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), {steps: 8});
  await page.mouse.up();
}

async function showsThePipeline(page) {
  assert.equal(await page.locator('#pipeline > li.card').count(), 3);
  assert.equal(await page.locator('#pipeline > li.link').count(), 2);
  await untilTrue(page, 'frames a second', () => parseFloat(document.getElementById('rate').textContent) > 1);
  assert.match(await textOf(page, '#p50'), /^\d[\d.,]* (µs|ms|s)$/);
  assert.match(await textOf(page, '#p99'), /^\d[\d.,]* (µs|ms|s)$/);
  assert.match(await textOf(page, '#occupancy'), /^\d+ of 8$/);
  assert.match(await textOf(page, '#queue'), /^\d+ of 64$/);
  assert.equal(await textOf(page, '#failed'), '0');
  assert.equal(await textOf(page, '#refused'), options.refused);
  await untilTrue(page, 'every card computes',
    () => [...document.querySelectorAll('#pipeline .figures span:first-child strong')].every((e) => parseFloat(e.textContent) > 0));
  await until(page, '#pipeline > li.link >> nth=0', /B\/s/);
  assert.equal(await page.locator('#pipeline .badge.good').count(), 3);
}

async function readsADrawing(page) {
  await stroke(page, [[0.5, 0.15], [0.5, 0.5], [0.5, 0.85]]);
  await until(page, '.verdict', /^It is 1 /);
  await page.getByRole('button', {name: 'Clear'}).click();
  assert.equal(await page.locator('.answers li').count(), 0);
  await page.locator('input[type=file]').setInputFiles(options.picture);
  await until(page, '.verdict', /^It is 7 /);
  assert.equal(await page.locator('.answers li').count(), 5);
}

/** Reaches the pad with the Tab key alone and draws a line down with the arrow keys. */
async function drawsByKeys(page) {
  await page.getByRole('button', {name: 'Clear'}).click();
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const seen = [];
  for (let i = 0; i < 30 && !(await page.evaluate(() => document.activeElement.classList.contains('pad'))); ++i) {
    await page.keyboard.press('Tab');
    seen.push(await page.evaluate(() => document.activeElement.textContent.trim().slice(0, 30)));
  }
  assert.ok(await page.evaluate(() => document.activeElement.classList.contains('pad')), `Tab does not reach the drawing: ${seen}`);
  for (let i = 0; i < 7; ++i) await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Space');
  for (let i = 0; i < 14; ++i) await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Space');
  await until(page, '.verdict', /It is 1 /);
  await page.keyboard.press('Delete');
  await until(page, '.verdict', /Cleared/);
}

async function administers(page) {
  await until(page, '#versions', 'ready');
  assert.match(await textOf(page, '#versions'), /lenet5/);
  if (!options.token) await page.locator('#admin > summary').click();
  const token = options.token ?? 'secret';
  await page.getByLabel('Admin token').fill(token);
  await page.getByLabel('Model', {exact: true}).last().fill('no-such-model');
  const sent = page.waitForRequest((request) => request.url().endsWith('/v2/repository/models/no-such-model/load'));
  await page.getByRole('button', {name: 'Load or swap'}).click();
  assert.equal((await sent).headers().authorization, `Bearer ${token}`);
  // No model has this name, so the page must show the server's error.
  await until(page, '#admin-result.bad', /Load no-such-model: ./);
}

/** Loads another version in place of the one that serves, and checks that the page says so. */
async function swaps(page, version) {
  const row = page.locator('#versions tr', {has: page.getByRole('button', {name: `Load lenet5 version ${version}`})});
  await row.getByRole('button').first().click();
  await until(page, '#admin-result', `Load lenet5 version ${version}: done`);
  await page.getByRole('button', {name: `Unload lenet5 version ${version}`}).waitFor();
  await page.locator('#model option', {hasText: `lenet5 version ${version}`}).waitFor({state: 'attached'});
  await until(page, '#failed', /^0$/);
}

/** Unloads the last version and loads it again: the page says both. */
async function unloadsAndLoads(page, version) {
  await page.getByRole('button', {name: `Unload lenet5 version ${version}`}).click();
  await until(page, '#connection', 'no model is served');
  assert.equal(await page.locator('#pipeline > li').count(), 0);
  // Match the button's whole name, because the row still has "Reload …" and "Unload …" until the table is redrawn.
  await page.getByRole('button', {name: `Load lenet5 version ${version}`, exact: true}).click();
  await until(page, '#connection', /^ready$/);
  assert.equal(await page.locator('#pipeline > li.card').count(), 3);
}

/** A refusal for lack of a token asks for one; a refusal that no token would lift does not. */
async function asksForATokenWhereOneHelps(page) {
  const wants = await page.evaluate(async (refusals) => {
    const {wantsToken} = await import(new URL('api.js', document.querySelector('script[type=module]').src));
    return refusals.map(([status, message]) => wantsToken({status, message}));
  }, [[401, "this route needs a token with the scope 'admin': Authorization: Bearer TOKEN"], [403, "the token of 'a' lacks the scope 'admin'"],
      [403, 'this route is answered on the admin listener only'], [403, 'admin routes need tokens (http.tokens), because other machines can reach this listener'],
      [404, 'no model has this token']]);
  assert.deepEqual(wants, [true, true, false, false, false]);
}

async function saysThatNobodyAnswers(page) {
  await page.route('**/v2/**', (route) => route.abort());
  await until(page, '#connection', 'the server does not answer');
  await page.unroute('**/v2/**');
  await until(page, '#connection', /^ready$/);
}

const browser = await chromium.launch({timeout: kPatience, executablePath: options.chromium, headless: true, args: process.getuid() === 0 ? ['--no-sandbox'] : []});
try {
  for (const look of options.token ? kLooks.slice(0, 1) : kLooks) {
    const page = await open(browser, look);
    await showsThePipeline(page);
    await readsADrawing(page);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth) - look.viewport.width;
    assert.ok(overflow <= 0, `${look.name}: ${overflow} pixels wider than the window`);
    await everythingHasAName(page);
    await contrastIsEnough(page);
    if (look.name === 'desktop-light') {
      await drawsByKeys(page);
      await administers(page);
      if (options.swap) {
        await swaps(page, options.swap);
        await unloadsAndLoads(page, options.swap);
      }
      await asksForATokenWhereOneHelps(page);
      await saysThatNobodyAnswers(page);
    }
    if (options.shots) await page.screenshot({path: `${options.shots}/${look.name}.png`, fullPage: true});
    assert.deepEqual(page.wrong, []);
    console.log(`${look.name}: as it should be`);
    await page.context().close();
  }
} finally {
  await browser.close();
}
