// Tests report.html in a real Chromium at four widths, light, dark and printed.
//
//   node report.mjs --file report.html [--expect "words on it" …] [--unpredicted] [--shots DIR] [--chromium /usr/bin/chromium]
//
// If something is wrong, prints a list of the faults, each with the page's width, and exits with code 1.
import assert from 'node:assert/strict';
import {mkdirSync} from 'node:fs';
import {pathToFileURL} from 'node:url';
import {parseArgs} from 'node:util';
import {chromium} from 'playwright-core';
import {contrastIsEnough, everythingHasAName} from './page.mjs';

const {values: options} = parseArgs({options: {
  file: {type: 'string'}, expect: {type: 'string', multiple: true, default: []}, unpredicted: {type: 'boolean', default: false},
  shots: {type: 'string'}, chromium: {type: 'string', default: '/usr/bin/chromium'},
}});
if (options.shots) mkdirSync(options.shots, {recursive: true});

const kSections = options.unpredicted ? ['pipeline'] :
  ['pipeline', 'roofline', 'alternatives', 'latency', 'layers', 'bandwidth', 'resources', 'energy'];
// The third width is the narrowest at which tables are not stacked (compiler/report/templates/page.html.in).
const kWidths = [[360, 740], [768, 1024], [896, 900], [1280, 900]];

/** Opens the page and listens for what must not be: errors, dialogs, and requests of any kind but the page's own. */
async function open(browser, look) {
  const context = await browser.newContext(look);
  context.setDefaultTimeout(60000);
  const page = await context.newPage();
  const url = pathToFileURL(options.file).href;
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(`error: ${error.message}`));
  page.on('console', (message) => page.wrong.push(`console: ${message.text()}`));
  page.on('dialog', (dialog) => { page.wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => { if (request.url() !== url) page.wrong.push(`went to ${request.url()}`); });
  await page.goto(url);
  return page;
}

/** Sections with a heading, each with something drawn or listed, and none of the page's own names elsewhere. */
async function allIsThere(page) {
  assert.deepEqual(await page.locator('main > section').evaluateAll((all) => all.map((s) => s.id)), kSections);
  for (const id of kSections) {
    assert.ok(await page.locator(`#${id} h2`).isVisible(), id);
    assert.ok(await page.locator(`#${id} :is(svg, table)`).count() > 0, `${id} shows nothing`);
  }
  assert.equal(await page.locator('svg.pipeline:visible').count(), 1, 'one drawing of the pipeline');
  const text = (await page.locator('body').textContent()) + await page.title();
  for (const words of options.expect) assert.ok(text.includes(words), `nowhere on the page: ${words}`);
  // If a name were taken as markup, it would create an element that the page itself never makes.
  assert.equal(await page.locator('script, img, iframe, object, embed, link, form, input, button, [onclick], [onload], [onerror]').count(), 0);
}

/** Nothing is wider than the window, no text is cut off or lies over another drawing's edge. */
async function fits(page, width, name) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= width, `${name}: ${wide - width} pixels wider than the window`);
  const out = await page.evaluate(() => {
    const all = [];
    for (const text of document.querySelectorAll('svg text')) {
      if (!text.checkVisibility()) continue;
      const [t, s] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
      if (t.left < s.left - 1 || t.right > s.right + 1 || t.top < s.top - 1 || t.bottom > s.bottom + 1) all.push(`leaves its drawing: ${text.textContent}`);
      const box = text.parentElement.querySelector(':scope > rect')?.getBoundingClientRect();
      if (box && (t.left < box.left || t.right > box.right)) all.push(`leaves its box: ${text.textContent}`);
      if (t.height < 11) all.push(`too small: ${text.textContent}`);
    }
    for (const axis of document.querySelectorAll('.axis')) {
      const marks = [...axis.children].map((mark) => mark.getBoundingClientRect());
      for (let i = 1; i < marks.length; ++i) if (marks[i].left < marks[i - 1].right + 2) all.push(`one over the other: ${axis.textContent}`);
    }
    for (const cell of document.querySelectorAll('td:not(.text)')) {
      const range = document.createRange();
      range.selectNodeContents(cell);
      if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) all.push(`a figure over two lines: ${cell.textContent}`);
    }
    return all;
  });
  assert.deepEqual(out, [], name);
}

/** As much as on the screen, on pages whose number is in reason, dark text on white. */
async function prints(page, name) {
  await page.emulateMedia({media: 'print'});
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(ground, 'rgb(255, 255, 255)', `${name}: printed on another ground`);
  await contrastIsEnough(page);
  assert.equal(await page.locator('svg.pipeline:visible').count(), 1);
  const pdf = await page.pdf({format: 'A4', ...(options.shots ? {path: `${options.shots}/${name}.pdf`} : {})});
  const pages = pdf.toString('latin1').match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  assert.ok(pages >= 1 && pages <= 400, `${pages} pages`);
  await page.emulateMedia({media: null});
}

const browser = await chromium.launch({timeout: 60000, executablePath: options.chromium, headless: true, args: process.getuid() === 0 ? ['--no-sandbox'] : []});
try {
  for (const [width, height] of kWidths)
    for (const colorScheme of ['light', 'dark']) {
      const name = `report-${width}-${colorScheme}`;
      const page = await open(browser, {viewport: {width, height}, colorScheme});
      if (options.shots) await page.screenshot({path: `${options.shots}/${name}.png`, fullPage: true});
      try {
        await allIsThere(page);
        await fits(page, width, name);
        await contrastIsEnough(page);
        await everythingHasAName(page, options.unpredicted ? 3 : 20);
        if (width === 1280) await prints(page, name);
        assert.deepEqual(page.wrong, []);
        console.log(`${name}: as it should be`);
      } catch (error) {  // still check the other widths
        console.error(`${name}: ${error.message.replace(`${name}: `, '')}`);
        process.exitCode = 1;
      }
      await page.context().close();
    }
} finally {
  await browser.close();
}
