import { expect, test } from 'vitest';
import { ClockComparison } from '../../src/telemetry/clocks.ts';

test('clock offsets are estimated from the times at which ranks began and ended the same collective', () => {
  const comparison = new ClockComparison();
  expect(comparison.offsets(0)).toEqual([]);
  // Rank 1's clock is 500 ms ahead. By rank 0's clock, all ranks are in the collective from 10 to
  // 12 ms. Rank 1 entered first.
  comparison.add(
    [
      { begin: 10, end: 12 },
      { begin: 508, end: 512 },
    ],
    0,
  );
  expect(comparison.offsets(0)).toEqual([
    { offsetMs: 0, errorMs: 0 },
    { offsetMs: 499, errorMs: 3 },
  ]);
  // This collective has tighter bounds.
  comparison.add(
    [
      { begin: 30, end: 31 },
      { begin: 530, end: 531 },
    ],
    0,
  );
  expect(comparison.offsets(0)[1]).toEqual({ offsetMs: 500, errorMs: 1 });
});

test('the offset of a clock that has jumped is estimated again', () => {
  const comparison = new ClockComparison();
  for (const offset of [100, 900]) {
    comparison.add(
      [
        { begin: 0, end: 2 },
        { begin: offset, end: offset + 2 },
      ],
      0,
    );
  }
  expect(comparison.offsets(0)[1]).toEqual({ offsetMs: 900, errorMs: 2 });
});
