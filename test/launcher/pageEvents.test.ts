import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { BINDING, eventsOf, reportScript } from '../../launcher/browser/pageEvents.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';

interface ReportingPage {
  peergradReport: (event: object) => void;
}

/** Runs the script in a page, and returns the batches that the process receives. */
function openPage(omitted: readonly EngineEvent['type'][] = []): { page: ReportingPage; batches: unknown[][] } {
  const batches: unknown[][] = [];
  const page = { [BINDING]: async (batch: string) => void batches.push(eventsOf(batch)) };
  runInNewContext(reportScript(omitted), { window: page });
  return { page: page as unknown as ReportingPage, batches };
}

const settled = (): Promise<void> => new Promise((done) => setTimeout(done));

test('numbers that JSON cannot represent arrive unchanged', async () => {
  const { page, batches } = openPage();
  const step = { type: 'step', loss: Number.NaN, all: [Infinity, -Infinity, 0.5, null, 'NaN'] };
  page.peergradReport(step);
  page.peergradReport({ type: 'failed', message: 'The loss is NaN.' });
  await settled();
  expect(batches).toEqual([[step, { type: 'failed', message: 'The loss is NaN.' }]]);
});

test('events of omitted types are not reported', async () => {
  const { page, batches } = openPage(['begin']);
  page.peergradReport({ type: 'begin' });
  page.peergradReport({ type: 'saved', step: 1 });
  await settled();
  expect(batches).toEqual([[{ type: 'saved', step: 1 }]]);
});
