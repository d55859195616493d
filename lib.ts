import * as tf from '@tensorflow/tfjs';
import { buildModel, type JobModel } from '/work/main/src/jobs/models.ts';
import { lossSum, countCorrect } from '/work/main/src/jobs/loss.ts';
import type { Dataset } from '/work/main/src/jobs/dataset.ts';
import { createOptimizer } from '/work/main/src/optim/index.ts';
import { GlobalCursor } from '/work/main/src/parallel/sampler.ts';
export async function accuracy(m: JobModel, d: Dataset): Promise<number> {
  let ok = 0; const x = new Float32Array(500 * 784), l = new Int32Array(500);
  for (let i = 0; i < d.size; i += 500) { const n = Math.min(500, d.size - i); d.read(Array.from({ length: n }, (_, k) => i + k), x, l);
    const t = tf.tidy(() => m.logits(tf.tensor(x.slice(0, n * 784), [n, 28, 28, 1]))); ok += countCorrect(await t.data(), l.subarray(0, n), 10); t.dispose(); }
  return ok / d.size;
}
export async function train(train: Dataset, test: Dataset, o: { model?: 'mlp'|'cnn'; lr: number; batch: number; steps: number; opt?: 'adam'|'sgd'|'momentum'|'adamw'; seed?: number; at?: number[] }) {
  const m = buildModel({ model: o.model ?? 'mlp', seed: o.seed ?? 1 }, train);
  const size = m.variables.reduce((a, v) => a + v.size, 0);
  const p = new Float32Array(size), g = new Float32Array(size);
  let at = 0; for (const v of m.variables) { p.set(v.dataSync(), at); at += v.size; }
  const opt = createOptimizer(o.opt ?? 'adam', { learningRate: o.lr }, size);
  const cur = new GlobalCursor({ datasetSize: train.size, seed: o.seed ?? 1 });
  const out: string[] = [];
  for (let s = 0; s < o.steps; s++) {
    const w = cur.window(s, o.batch); const n = w.indices.length; const x = new Float32Array(n * 784), l = new Int32Array(n); train.read(w.indices, x, l);
    const { value, grads } = tf.variableGrads(() => lossSum(m.logits(tf.tensor(x, [n, 28, 28, 1])), tf.tensor1d(l, 'int32'), tf.ones([n])), [...m.variables]);
    at = 0; for (const v of m.variables) { const a = grads[v.name]!.dataSync(); for (let i = 0; i < a.length; i++) g[at + i] = a[i]! / n; at += v.size; }
    opt.apply(p, g);
    at = 0; for (const v of m.variables) { const t = tf.tensor(p.slice(at, at + v.size), v.shape); v.assign(t); t.dispose(); at += v.size; }
    tf.dispose(grads); value.dispose();
    if (o.at?.includes(s + 1) || s + 1 === o.steps) out.push(`${s + 1}:${(await accuracy(m, test)).toFixed(4)}`);
  }
  m.dispose(); return out.join(' ');
}
