// Serves a model with Node's own HTTP server and ONNX Runtime, without a framework, to compare the cost with
// Millrace's. The server speaks as much of the Open Inference Protocol as `millrace bench` needs: the model's metadata,
// and inference with binary tensors.
//
//   node serve_model.mjs MODEL.onnx [NAME]      prints `listening http 127.0.0.1:PORT`; stops when standard input ends
import {createServer} from 'node:http';
import {basename} from 'node:path';
import ort from 'onnxruntime-node';

const [file, name = basename(file, '.onnx')] = process.argv.slice(2);
const session = await ort.InferenceSession.create(file, {graphOptimizationLevel: 'all', intraOpNumThreads: 1, interOpNumThreads: 1});
const [input, output] = [session.inputNames[0], session.outputNames[0]];
const shapeOf = (metadata) => metadata.shape.map((axis) => typeof axis === 'number' ? axis : 1);
const shape = shapeOf(session.inputMetadata[0]), outputShape = shapeOf(session.outputMetadata[0]);
const elements = shape.reduce((a, b) => a * b, 1);
const metadata = Buffer.from(JSON.stringify({
  name, versions: ['1'], platform: 'onnxruntime',
  inputs: [{name: input, datatype: 'FP32', shape}], outputs: [{name: output, datatype: 'FP32', shape: outputShape}],
}));

async function infer(request, body) {
  const header = Number(request.headers['inference-header-content-length'] ?? 0);
  if (header > 0) JSON.parse(body.subarray(0, header).toString());
  if (body.length - header !== 4 * elements) throw new Error(`the tensor has ${body.length - header} bytes`);
  const tensor = new Float32Array(elements);
  body.copy(Buffer.from(tensor.buffer), 0, header);
  const {[output]: result} = await session.run({[input]: new ort.Tensor('float32', tensor, shape)});
  const bytes = Buffer.from(result.data.buffer, result.data.byteOffset, result.data.byteLength);
  const json = JSON.stringify({model_name: name, model_version: '1', outputs: [
    {name: output, datatype: 'FP32', shape: result.dims, parameters: {binary_data_size: bytes.length}}]});
  return {json, bytes};
}

const server = createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', async () => {
    try {
      if (request.method === 'GET') {
        response.writeHead(request.url === `/v2/models/${name}` ? 200 : 404, {'Content-Type': 'application/json'});
        return response.end(request.url === `/v2/models/${name}` ? metadata : '{"error":"no such route"}');
      }
      const {json, bytes} = await infer(request, parts.length === 1 ? parts[0] : Buffer.concat(parts));
      response.writeHead(200, {'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': json.length,
        'Content-Length': json.length + bytes.length});
      response.end(Buffer.concat([Buffer.from(json), bytes]));
    } catch (error) {
      response.writeHead(400, {'Content-Type': 'application/json'});
      response.end(JSON.stringify({error: error.message}));
    }
  });
});
server.on('connection', (socket) => socket.setNoDelay(true));
server.listen(0, '127.0.0.1', () => console.log(`listening http 127.0.0.1:${server.address().port}`));
process.stdin.on('end', () => process.exit(0)).resume();
