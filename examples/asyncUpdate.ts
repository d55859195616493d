// Asynchronous update with a parameter server: rank 0 has the parameter and applies each gradient
// when it arrives; ranks 1 and 2 pull the parameter and push a gradient, here in a fixed order:
// https://www.tensorflow.org/tutorials/distribute/parameter_server_training
// In the lucky order, both gradients arrive before a worker pulls again, as synchronously.
// In the stale order, worker 2 is slow: when its gradient arrives, the parameter has changed.
// Expected output: in the lucky order, every update lowers the loss. In the stale order, updates 6
// and 12, those of worker 2, raise it. Rank 0 draws both curves.
import type { ProcessGroup } from '../src/index.ts'; // from 'peergrad'
import type { ExamplePage } from './example.ts';

export const worldSize = 3;
const LEARNING_RATE = 0.2;
const TARGET = 3; // The loss is (w - 3)², and its gradient 2 (w - 3).

const ORDERS = {
  lucky: 'pull 1, pull 2, push 1, push 2; '.repeat(6),
  stale: `pull 2, ${'pull 1, push 1, '.repeat(5)}push 2; `.repeat(2),
};

/** Rank 0. Returns the loss after each update. */
async function serve(group: ProcessGroup, name: string, order: string, print: (line: string) => void) {
  const parameter = Float32Array.of(0);
  const losses: number[] = [];
  for (const [, action, worker] of order.matchAll(/(pull|push) (\d)/g)) {
    if (action === 'pull') {
      await group.send(parameter, Number(worker));
    } else {
      const gradient = new Float32Array(1);
      await group.recv(gradient, Number(worker));
      parameter[0]! -= LEARNING_RATE * gradient[0]!;
      losses.push((parameter[0]! - TARGET) ** 2);
      print(`${name} update ${losses.length}, of worker ${worker}: loss ${losses.at(-1)!.toFixed(4)}`);
    }
  }
  return losses;
}

async function work(group: ProcessGroup, name: string, order: string, print: (line: string) => void) {
  const parameter = new Float32Array(1);
  for (const [, action, worker] of order.matchAll(/(pull|push) (\d)/g)) {
    if (Number(worker) !== group.rank) continue;
    if (action === 'pull') {
      await group.recv(parameter, 0);
    } else {
      const gradient = 2 * (parameter[0]! - TARGET);
      await group.send(Float32Array.of(gradient), 0);
      print(`${name} gradient ${gradient.toFixed(4)} at w ${parameter[0]!.toFixed(4)}`);
    }
  }
}

export async function main(group: ProcessGroup, print: (line: string) => void, { plot }: ExamplePage) {
  const curves: Record<string, number[]> = {};
  for (const [name, order] of Object.entries(ORDERS)) {
    if (group.rank === 0) curves[name] = await serve(group, name, order, print);
    else await work(group, name, order, print);
  }
  if (group.rank === 0) plot('Loss after each update', curves);
}
