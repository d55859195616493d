/** Opens WebAssembly in Node, which is several times as fast as TensorFlow.js's CPU backend. */
import { createRequire } from 'node:module';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';

export async function openWasm(): Promise<void> {
  const entry = createRequire(import.meta.url).resolve('@tensorflow/tfjs-backend-wasm');
  setWasmPaths(`${path.dirname(entry)}/`);
  await tf.setBackend('wasm');
}
