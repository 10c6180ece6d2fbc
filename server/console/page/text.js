// Creates page elements, and formats numbers for people.

/** Creates an element: make('p', {class: 'x'}, 'text', child…). Texts are never parsed as HTML. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  element.append(...children);
  return element;
}

export const find = (id) => document.getElementById(id);

/** Sets the text of an element, but only if it differs, so that a screen reader announces real changes only. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const digits = (value, most) => value.toLocaleString('en', {maximumFractionDigits: most});

export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value >= 1e6) return digits(value / 1e6, 2) + ' M';
  if (value >= 1e4) return digits(value / 1e3, 1) + ' k';
  return digits(value, value < 10 ? 1 : 0);
}

export function microseconds(value) {
  if (value === null || value === undefined) return '–';
  if (value >= 1e6) return digits(value / 1e6, 2) + ' s';
  if (value >= 1e3) return digits(value / 1e3, 1) + ' ms';
  return digits(value, 0) + ' µs';
}

export function bytesPerSecond(value) {
  if (value >= 1e9) return digits(value / 1e9, 2) + ' GB/s';
  if (value >= 1e6) return digits(value / 1e6, 1) + ' MB/s';
  if (value >= 1e3) return digits(value / 1e3, 1) + ' kB/s';
  return digits(value, 0) + ' B/s';
}
