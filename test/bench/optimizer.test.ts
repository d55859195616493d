import { expect, test } from 'vitest';
import { runBench } from '../../bench/command/cli.ts';
import type { OptimizerResult } from '../../bench/optimizer.ts';

test('the benchmark measures every optimizer, the average and the hash for every size', async () => {
  const lines: string[] = [];
  const io = {
    out: (line: string) => void lines.push(line),
    err: () => {},
    terminal: null,
    signal: AbortSignal.timeout(20_000),
  };
  expect(await runBench(['optimizer', '--parameters', '100,200', '--json'], io)).toBe(0);
  const { rows } = JSON.parse(lines.at(-1)!) as OptimizerResult;
  const work = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw', 'average', 'hash'];
  expect(rows.map((row) => row.work)).toEqual([...work, ...work]);
  expect(rows.map(({ parameters }) => parameters)).toEqual([...work.map(() => 100), ...work.map(() => 200)]);
});
