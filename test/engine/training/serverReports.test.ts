import { expect, test } from 'vitest';
import { ServerReports, type ServerReport } from '../../../src/engine/training/serverReports.ts';
import { ManualClock } from '../../manualClock.ts';

function createReports(): { reports: ServerReports; clock: ManualClock; sent: ServerReport[] } {
  const clock = new ManualClock();
  const sent: ServerReport[] = [];
  return { reports: new ServerReports(clock, (message) => sent.push(message)), clock, sent };
}

test('progress of SYNCING is reported at most every 20 s', () => {
  const { reports, clock, sent } = createReports();
  for (let second = 0; second < 60; second++) {
    reports.syncing(3);
    clock.advance(1000);
  }
  expect(sent).toEqual([1, 2, 3].map(() => ({ type: 'syncing', generation: 3 })));
});

test('the distribution of files is reported while bytes arrive', () => {
  const { reports, clock, sent } = createReports();
  for (const bytes of [10, 20, 20, 20]) {
    reports.observe({ type: 'file-distribution', generation: 2, total: 100, bytesPerRank: [bytes, 5] });
    clock.advance(20_000);
  }
  expect(sent).toEqual([1, 2].map(() => ({ type: 'syncing', generation: 2 })));
});
