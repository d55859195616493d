import { expect, test } from 'vitest';
import {
  formatAgo,
  formatBytes,
  formatClockDuration,
  formatCount,
  formatLoss,
  formatMs,
  formatRank,
  formatLearningRate,
  formatRatio,
  formatPercent,
} from '../../../src/app/locales/format.ts';
import { membersByRank } from '../../../src/app/people.ts';

test('formatAgo rounds the time since an event down to whole minutes, hours or days', () => {
  const minute = 60_000;
  const texts = [-5, 59_999, minute, 59 * minute, 60 * minute, 23 * 60 * minute, 50 * 60 * minute].map((ms) =>
    formatAgo(ms, 'en'),
  );
  expect(texts).toEqual(['now', 'now', '1 minute ago', '59 minutes ago', '1 hour ago', '23 hours ago', '2 days ago']);
  expect(formatAgo(3 * minute, 'zh')).toBe('3分钟前');
});

test('numbers are formatted with few digits', () => {
  expect([0, 7.25, 812, 9999, 12_800, 2.4e6].map(formatCount)).toEqual(['0', '7.3', '812', '9999', '12.8 k', '2.4 M']);
  expect([0, 999, 213_400, 1e6, 99.96e6, 2.5e9].map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '213 kB',
    '1.0 MB',
    '100 MB',
    '2.5 GB',
  ]);
  expect([0.44, 12, 999.4, 1300].map(formatMs)).toEqual(['0.4 ms', '12 ms', '999 ms', '1.3 s']);
  expect([0, 7000, 72_400, 3_729_000].map(formatClockDuration)).toEqual(['0:00', '0:07', '1:12', '1:02:09']);
  expect([12.34, 2.312, 0.2134, 0.00042].map(formatLoss)).toEqual(['12.3', '2.31', '0.213', '0.00042']);
  expect([0.31623, 0.001, 0.00099, 3.16e-7, 10].map(formatLearningRate)).toEqual([
    '0.32',
    '0.001',
    '9.9e-4',
    '3.2e-7',
    '10',
  ]);
  expect([1.31, 9, 9.94, 12.6].map(formatRatio)).toEqual(['1.3', '9.0', '9.9', '13']);
  expect(formatLoss(Number.NaN)).toBe('NaN');
  expect([formatPercent(0.314), formatPercent(0.9721, 1), formatPercent(Number.NaN)]).toEqual(['31 %', '97.2 %', '–']);
});

test('formatRank names the member of a rank, if it is known', () => {
  membersByRank.value = [{ name: 'Ada' }, null];
  expect([0, 1, 2].map((rank) => formatRank(rank))).toEqual(['Ada (rank 0)', 'rank 1', 'rank 2']);
  expect(formatRank(1, 'Wu')).toBe('Wu (rank 1)');
  membersByRank.value = [];
});
