// Reads and writes NumPy's .npy files (C order, little-endian) for ONNX Runtime's tensors.
'use strict';
const fs = require('fs');

// NumPy's type, ONNX Runtime's type, and the class of the array that holds the elements.
const TYPES = [
  ['<f4', 'float32', Float32Array], ['|i1', 'int8', Int8Array], ['|u1', 'uint8', Uint8Array],
  ['<i4', 'int32', Int32Array], ['<i8', 'int64', BigInt64Array],
];

function readNpy(path) {
  const bytes = fs.readFileSync(path);
  const headerLength = bytes.readUInt16LE(8);
  const header = bytes.toString('latin1', 10, 10 + headerLength);
  const row = TYPES.find(([descr]) => header.includes(`'descr': '${descr}'`));
  if (!row) throw new Error(`${path}: none of the types ${TYPES.map(([descr]) => descr).join(', ')}`);
  const shape = header.match(/'shape': \(([^)]*)\)/)[1].split(',').map((s) => s.trim()).filter((s) => s).map(Number);
  const data = new row[2](shape.reduce((a, b) => a * b, 1));
  bytes.copy(Buffer.from(data.buffer), 0, 10 + headerLength);
  return {type: row[1], shape, data};
}

function writeNpy(path, type, shape, data) {
  const descr = TYPES.find(([, name]) => name === type)?.[0];
  if (!descr) throw new Error(`${path}: no .npy type for ${type}`);
  let header = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
  header += ' '.repeat(63 - ((10 + header.length) % 64)) + '\n';
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01\x00', 0, 'latin1');
  start.writeUInt16LE(header.length, 8);
  const body = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  fs.writeFileSync(path, Buffer.concat([start, Buffer.from(header, 'latin1'), body]));
}

module.exports = {readNpy, writeNpy};
