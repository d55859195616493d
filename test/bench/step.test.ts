import { expect, test } from 'vitest';
import { section } from '../../bench/step/section.ts';
import { aloneOf, cutsOf } from '../../bench/step/summary.ts';

const step = (total: number, communicate = 0, exposed = 0) => ({
  ...{ total, communicate, exposed, compute: total / 2, readback: 1, update: 2 },
});

const TAKEN = {
  ...{ backend: 'webgpu', adapter: 'a GPU', parameters: 1000 },
  kinds: [
    { steps: [step(40, 10, 8), step(20, 10, 2), step(20, 12, 3)], bucketBytes: [3000, 1012] },
    { steps: [step(22, 5, 5)], bucketBytes: [4012] },
  ],
};

test('steps are told by their medians, ours beside plain ones, and how much of communication is exposed', () => {
  expect(aloneOf('mlp', 32, TAKEN)).toMatchObject({ plainMs: 20, ratio: 1.1, parameters: 1000, ms: { compute: 11 } });
  const cuts = cutsOf([1024, null], TAKEN);
  expect(cuts).toMatchObject([
    { capBytes: 1024, exposedShare: 0.3, ms: { total: 20, communicate: 10, exposed: 3 } },
    { capBytes: null, exposedShare: 1, bucketBytes: [4012] },
  ]);
  const together = { tabs: 2, rate: '4mbit', model: 'deep', parameters: 1000, batch: 128, cuts } as const;
  const text = section({ adapter: 'a GPU', alone: [aloneOf('mlp', 32, TAKEN)], together });
  expect(text).toContain('| mlp   |       1000 |     20.0 |            22.0 | 1.100 |');
  expect(text).toContain('lines of 4mbit');
  expect(text).toContain('| 1 KiB      |       2 |');
  expect(text).toContain('| whole      |       1 |');
});
