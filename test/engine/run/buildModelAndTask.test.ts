import { expect, test } from 'vitest';
import { dataLoadOptions } from '../../../src/engine/run/buildModelAndTask.ts';
import type { EngineEvent } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';
import { ManualClock } from '../../manualClock.ts';

test('the progress of loading data has a rate, for each kind of progress and each reading', () => {
  const clock = new ManualClock();
  const events: EngineEvent[] = [];
  const options = {
    ...{ job: parseJob({}), files: [], shared: null, baseUrl: '' },
    ...{ clock, activity: new ThreadActivity(clock), emit: (event: EngineEvent) => void events.push(event) },
  };
  const { onprogress } = dataLoadOptions(options);
  for (const [unit, done] of [
    ['bytes', 100],
    ['bytes', 2100],
    ['bytes read', 50],
    ['bytes read', 1050],
    ['bytes read', 10],
    ['bytes read', 2010],
  ] as const) {
    onprogress!({ unit, done, total: 5000 });
    clock.advance(2000);
  }
  const rates = events.map((event) => (event.type === 'warmup' ? event.loading?.rate : null));
  expect(rates).toEqual([undefined, 1000, undefined, 500, undefined, 1000]);
});
