import { expect, test } from 'vitest';
import { StepTelemetry } from '../../../src/engine/training/telemetry/stepTelemetry.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { ManualClock } from '../../manualClock.ts';

test('a recording contains traces of the current world only', async () => {
  await runWorld(2, async (group) => {
    const telemetry = new StepTelemetry(new ManualClock(), () => false);
    telemetry.enter(group);
    const hops = [0, 1].map((planStep) => ({ planStep, sentAt: planStep, receivedAt: planStep + 1, reduceMs: 0 }));
    const ms = { total: 3, data: 0, compute: 0, readback: 0, communicate: 3, exposed: 3, update: 0 };
    telemetry.took({
      step: 0,
      startedAt: 0,
      ms,
      bucketBytes: [8],
      commands: { dispatches: 20, submits: 3 },
      traces: [{ startedAt: 0, algorithm: 'ring', hops }],
    });
    expect(telemetry.recorded.traces).toHaveLength(1);
    telemetry.enter(group);
    expect(telemetry.recorded).toMatchObject({
      traces: [],
      lanes: [{ step: 0, commands: { dispatches: 20, submits: 3 } }],
    });
  });
});
