// The checks that every page of Millrace must pass: text is readable and elements have names.
import assert from 'node:assert/strict';

/** Every control, picture and meter says what it is. */
export async function everythingHasAName(page, atLeast = 20) {
  const session = await page.context().newCDPSession(page);
  const {nodes} = await session.send('Accessibility.getFullAXTree');
  const wanted = new Set(['button', 'textbox', 'combobox', 'checkbox', 'meter', 'image', 'link', 'table', 'DisclosureTriangle', 'heading', 'region']);
  let found = 0;
  for (const node of nodes) {
    if (node.ignored || !wanted.has(node.role?.value)) continue;
    ++found;
    assert.ok((node.name?.value ?? '').trim() !== '' || node.role.value === 'table', `a ${node.role.value} without a name`);
  }
  assert.ok(found >= atLeast, `only ${found} named things`);
}

/** Text against what is behind it: WCAG 2.1 AA, 4.5 to 1. */
export async function contrastIsEnough(page) {
  const poor = await page.evaluate(() => {
    const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
    const luminance = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const ground = (element) => {
      for (let e = element; e; e = e.parentElement) {
        // The background of text in an SVG is the <rect> beside the text.
        const box = e instanceof SVGElement ? e.parentElement?.querySelector(':scope > rect') : null;
        const colour = parse(box ? getComputedStyle(box).fill : getComputedStyle(e).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour;
      }
      return [255, 255, 255];
    };
    const out = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.textContent.trim() || !element.checkVisibility() || element.closest('.skip, noscript, script, title, button:disabled')) continue;
      const style = getComputedStyle(element);
      const [a, b] = [luminance(parse(element instanceof SVGElement ? style.fill : style.color)), luminance(ground(element))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) out.push(`${ratio.toFixed(2)}: ${node.textContent.trim().slice(0, 40)}`);
    }
    return out;
  });
  assert.deepEqual(poor, [], 'text that is hard to read');
}
