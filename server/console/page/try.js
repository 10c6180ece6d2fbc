// The form in which people try an input: a drawing or a picture if the model's input is a picture, otherwise numbers.

import {get, part, post} from './api.js';
import {find, make, say} from './text.js';
import {elements, ink, kTypes, numbers, picture, preprocess, samplesOf} from './tensor.js';

const kPad = 280;    // width of the drawing in pixels
const kPen = 20;
const kStep = 14;    // pixels by which an arrow key moves the pen
const kDigit = 20 / 28;  // size of a centred digit as a fraction of the picture, as in MNIST

export class Try {
  constructor() {
    this.shown = '';
    this.running = false;
    this.again = false;
    this.cleared = 0;  // how often the drawing was cleared, so that an answer to an old drawing is not shown
  }

  /** Creates the form for a model version, whose inputs it requests from the server, unless it is shown already. */
  async show(name, version) {
    const key = `${name}\n${version}`;
    if (key === this.shown) return;
    this.shown = key;
    try {
      this.model = await get(`/v2/millrace/models/${part(name)}/versions/${part(version)}`);
    } catch (error) {
      this.shown = '';
      find('try').replaceChildren(make('p', {class: 'bad'}, error.message));
      return;
    }
    this.name = name;
    this.version = version;
    const input = this.model.inputs[0];
    this.image = this.model.inputs.length === 1 ? picture(input, this.model.preprocessing.layout) : null;
    this.verdict = make('p', {class: 'verdict', role: 'status', 'aria-live': 'polite'});
    this.answers = make('ol', {class: 'answers', 'aria-label': 'Most likely classes'});
    const results = make('div', {}, this.verdict, this.answers);
    if (this.image) find('try').replaceChildren(make('div', {class: 'try'}, this.makePad(), results));
    else if (this.model.inputs.length === 1 && input.datatype in kTypes)
      find('try').replaceChildren(make('div', {class: 'try'}, this.makeNumbers(input), results));
    else find('try').replaceChildren(make('p', {}, `This page feeds models of one numeric input; ${name} has ${this.model.inputs.map((i) => `${i.name} (${i.datatype})`).join(', ')}.`));
  }

  /** Removes the form, because no model is served. */
  hide() {
    this.shown = '';
    find('try').replaceChildren(make('p', {}, 'Nothing is served.'));
  }

  // The form for a drawing.

  makePad() {
    const {width, height, channels} = this.image;
    this.pad = make('canvas', {class: 'pad', width: kPad, height: Math.round(kPad * height / width), tabindex: 0, role: 'img',
      'aria-label': 'Drawing. Arrow keys move the pen, Space lowers and lifts it, Delete clears.', 'aria-describedby': 'pad-help'});
    this.pen = this.pad.getContext('2d', {willReadFrequently: true});
    this.at = {x: this.pad.width / 2, y: this.pad.height / 2, down: false};
    this.centre = make('input', {type: 'checkbox', checked: true});
    const file = make('input', {type: 'file', accept: 'image/*', 'aria-label': 'A picture'});
    const clear = make('button', {type: 'button'}, 'Clear');
    clear.addEventListener('click', () => this.clear());
    file.addEventListener('change', () => this.take(file.files[0]));
    this.pad.addEventListener('pointerdown', (event) => this.begin(event));
    this.pad.addEventListener('pointermove', (event) => this.move(event));
    for (const end of ['pointerup', 'pointercancel']) this.pad.addEventListener(end, () => this.end());
    this.pad.addEventListener('keydown', (event) => this.key(event));
    this.centre.addEventListener('change', () => this.send());
    this.clear();
    const centred = channels === 1 ? [make('label', {}, this.centre, ' Centre the drawing')] : [];
    return make('div', {}, this.pad,
      make('p', {class: 'hint', id: 'pad-help'}, `Draw with finger, mouse or keys, or choose a picture. It becomes ${width} × ${height}.`),
      make('div', {class: 'buttons'}, clear, ...centred), make('div', {class: 'buttons'}, file));
  }

  clear() {
    this.pen.fillStyle = '#000';
    this.pen.fillRect(0, 0, this.pad.width, this.pad.height);
    ++this.cleared;
    this.empty = true;
    this.fromFile = false;
    this.say(this.image ? 'Nothing drawn yet' : '');
    this.answers.replaceChildren();
  }

  line(from, to) {
    Object.assign(this.pen, {strokeStyle: '#fff', lineWidth: kPen, lineCap: 'round', lineJoin: 'round'});
    this.pen.beginPath();
    this.pen.moveTo(from.x, from.y);
    this.pen.lineTo(to.x, to.y + 0.01);
    this.pen.stroke();
    this.empty = false;
  }

  where(event) {
    const box = this.pad.getBoundingClientRect();
    return {x: (event.clientX - box.left) * this.pad.width / box.width, y: (event.clientY - box.top) * this.pad.height / box.height};
  }

  begin(event) {
    if (event.button !== 0) return;
    if (this.fromFile) this.clear();
    this.pad.setPointerCapture(event.pointerId);
    this.last = this.where(event);
    this.line(this.last, this.last);
    event.preventDefault();
    this.pad.focus({preventScroll: true});
  }

  move(event) {
    if (!this.last) return;
    for (const one of event.getCoalescedEvents?.() ?? [event]) {
      const to = this.where(one);
      this.line(this.last, to);
      this.last = to;
    }
    this.send();
  }

  end() {
    if (!this.last) return;
    this.last = null;
    this.send();
  }

  key(event) {
    const step = {ArrowLeft: [-kStep, 0], ArrowRight: [kStep, 0], ArrowUp: [0, -kStep], ArrowDown: [0, kStep]}[event.key];
    if (step) {
      const to = {x: Math.min(this.pad.width, Math.max(0, this.at.x + step[0])), y: Math.min(this.pad.height, Math.max(0, this.at.y + step[1]))};
      if (this.at.down) this.line(this.at, to);
      Object.assign(this.at, to);
      if (this.at.down) this.send();
      else this.say(`Pen up, ${Math.round(100 * to.x / this.pad.width)} % across, ${Math.round(100 * to.y / this.pad.height)} % down`);
    } else if (event.key === ' ') {
      if (this.fromFile) this.clear();
      this.at.down = !this.at.down;
      if (this.at.down) {
        this.line(this.at, this.at);
        this.send();
      } else {
        this.say(`Pen up; ${this.verdict.textContent}`);
      }
    } else if (event.key === 'Delete' || event.key === 'Backspace') {
      this.clear();
      this.say('Cleared');
    } else {
      return;
    }
    event.preventDefault();
  }

  async take(file) {
    if (!file) return;
    try {
      const bitmap = await createImageBitmap(file);
      this.clear();
      this.pen.drawImage(bitmap, 0, 0, this.pad.width, this.pad.height);
      this.empty = false;
      this.fromFile = true;
      this.send();
    } catch {
      this.say(`${file.name} is not a picture this browser reads`);
    }
  }

  /** Returns the samples of the drawing, scaled to the size of the input. */
  samples() {
    const {width, height, channels} = this.image;
    const small = new OffscreenCanvas(width, height).getContext('2d', {willReadFrequently: true});
    small.imageSmoothingQuality = 'high';
    small.fillRect(0, 0, width, height);
    const full = this.pen.getImageData(0, 0, this.pad.width, this.pad.height);
    const drawn = channels === 1 && this.centre.checked && !this.fromFile ? ink(samplesOf(full.data, 1), full.width, full.height) : null;
    if (drawn) {
      const scale = Math.min(width, height) * kDigit / drawn.size;
      small.setTransform(scale, 0, 0, scale, width / 2 - drawn.x * scale, height / 2 - drawn.y * scale);
      small.drawImage(this.pad, 0, 0);
    } else {
      small.drawImage(this.pad, 0, 0, width, height);
    }
    return samplesOf(small.getImageData(0, 0, width, height).data, channels);
  }

  // The form for numbers.

  makeNumbers(input) {
    const wanted = elements(input.shape);
    const text = make('textarea', {id: 'numbers', spellcheck: 'false', placeholder: `${wanted} numbers`});
    const random = make('button', {type: 'button'}, 'Random numbers'), run = make('button', {type: 'button', class: 'primary'}, 'Ask');
    const real = input.datatype.startsWith('FP');
    random.addEventListener('click', () => {
      text.value = Array.from({length: wanted}, () => real ? Math.random().toFixed(3) : Math.floor(Math.random() * 128)).join(' ');
      this.tensor = () => numbers(text.value, input);
      this.send();
    });
    run.addEventListener('click', () => {
      this.tensor = () => numbers(text.value, input);
      this.send();
    });
    return make('div', {}, make('label', {for: 'numbers'}, `${input.name}, ${input.datatype} [${input.shape.join(', ')}]`), text,
      make('div', {class: 'buttons'}, run, random));
  }

  // The functions below send the input and show the answer.

  say(text) { say(this.verdict, text); }

  /** Sends the input. If a request is running already, sends the input again after its answer. */
  async send() {
    if (this.running) {
      this.again = true;
      return;
    }
    if (this.image && this.empty) return;
    this.running = true;
    try {
      await this.infer();
    } catch (error) {
      this.say(error.message);
    }
    this.running = false;
    if (this.again) {
      this.again = false;
      this.send();
    }
  }

  async infer() {
    const input = this.model.inputs[0], output = this.model.outputs[0];
    const tensor = this.image ? preprocess(this.samples(), this.image, input, this.model.preprocessing) : this.tensor();
    const header = JSON.stringify({
      inputs: [{name: input.name, shape: input.shape, datatype: input.datatype, parameters: {binary_data_size: tensor.byteLength}}],
      outputs: [{name: output.name, parameters: {classification: 5}}],
    });
    const begin = performance.now(), cleared = this.cleared;
    const answer = await post(`/v2/models/${part(this.name)}/versions/${part(this.version)}/infer`, new Blob([header, tensor]),
      {'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': new TextEncoder().encode(header).length});
    if (cleared === this.cleared) this.showAnswer(answer.outputs[0].data, performance.now() - begin);
  }

  /** Shows classes, which the classification extension writes as value:index:label. */
  showAnswer(classes, ms) {
    const rows = classes.map((text) => {
      const [value, index, ...label] = text.split(':');
      return {value: Number(value), name: label.length ? label.join(':') : `#${index}`};
    });
    const top = Math.max(...rows.map((r) => r.value)), low = Math.min(0, ...rows.map((r) => r.value));
    this.say(`It is ${rows[0].name} (${ms.toFixed(1)} ms)`);
    this.answers.replaceChildren(...rows.map((row) => {
      const bar = make('span');
      bar.style.width = `${top > low ? 100 * (row.value - low) / (top - low) : 0}%`;
      return make('li', {}, make('span', {}, row.name), make('span', {class: 'bar', 'aria-hidden': 'true'}, bar),
        make('span', {class: 'value'}, Number(row.value.toPrecision(4)).toString()));
    }));
  }
}
