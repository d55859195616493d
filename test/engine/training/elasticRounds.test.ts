/**
 * Strategies whose ranks train alone between exchanges continue when ranks are lost or join, at
 * whichever frame that happens: all ranks return to the latest exchange.
 */
import { describe, expect, test } from 'vitest';
import { runStateFromCheckpoint, runStateToCheckpoint } from '../../../src/engine/storage/runCheckpoint.ts';
import { parseJob } from '../../../src/spec/job.ts';
import { createRng } from '../../../src/util/rng.ts';
import { COUNTING_PLAN, createCountingTask, createMember, isLoss, runGeneration, type Member } from '../worlds.ts';

const SAMPLES = 12;
const EPOCHS = 6;
/** Windows of three ranks with two samples each. */
const STEPS = 12;
const SYNC_EVERY = 4;
const STRATEGIES = ['local-sgd', 'diloco', 'streaming-diloco', 'sparseloco'] as const;
/** With few parameters, so that the frames of a round are few. */
const PADDING = 8;

const member = (name: string, strategy: string, fields: Record<string, unknown> = {}): Promise<Member> =>
  createMember(name, createCountingTask({ samples: SAMPLES, padding: PADDING }), {
    ...COUNTING_PLAN,
    ...{ strategy, syncEvery: SYNC_EVERY, epochs: EPOCHS, optimizer: 'sgd', hashEvery: 1 },
    ...fields,
  });

const members = (strategy: string, names: string): Promise<Member[]> =>
  Promise.all(Array.from(names, (name) => member(name, strategy)));

function dispose(all: readonly Member[]): void {
  for (const each of all) each.dispose();
}

/** Each sample of each of the windows is in the average of the three ranks with a weight of 1/6. */
function expectEachSampleOnce(weights: readonly number[]): void {
  for (const weight of weights.slice(0, SAMPLES)) expect(weight).toBeCloseTo(EPOCHS / 6, 4);
}

describe.each(STRATEGIES)('%s', (strategy) => {
  test('takes every step with equal states, at whichever frame a rank is lost', async () => {
    let late = 0;
    let losses = 0;
    for (let frame = 0; ; frame++) {
      const first = await members(strategy, 'abc');
      const { results, isBroken } = await runGeneration(first, { end: { rank: 2, step: 2, frame } });
      if (!isBroken) {
        dispose(first);
        break;
      }
      losses += 1;
      for (const result of results) expect(result instanceof Error ? isLoss(result) : true).toBe(true);
      const survivors = first.slice(0, 2);
      if (survivors[0]!.rank.reached.step !== survivors[1]!.rank.reached.step) late += 1;
      const all = [...survivors, await member('d', strategy)];
      const second = await runGeneration(all);
      for (const result of second.results) {
        expect(result).toMatchObject({ steps: STEPS, epochs: EPOCHS, worldSize: 3 });
        if (result instanceof Error) continue;
        expect(result.losses).toHaveLength(STEPS);
        expect(new Set(result.stateHash).size).toBe(1);
      }
      expect(new Set(all.map(({ rank }) => rank.stateHash())).size).toBe(1);
      for (const each of all) expect(each.values()).toEqual(all[0]!.values());
      if (strategy === 'local-sgd') expectEachSampleOnce(all[0]!.values());
      dispose([...first, all[2]!]);
    }
    expect(losses).toBeGreaterThan(20);
    expect(late).toBeGreaterThan(0);
  }, 60_000);

  test('ends with equal replicas, whichever ranks join and leave', async () => {
    for (let seed = 1; seed <= 6; seed++) {
      const rng = createRng(seed);
      let present = await members(strategy, 'abc');
      const gone: Member[] = [];
      for (let i = 0; i < 4; i++) {
        const rank = rng.below(present.length);
        const end = { rank, frame: 40 + rng.below(120) };
        const { isBroken } = await runGeneration(present, { end, delays: rng });
        if (!isBroken) break;
        gone.push(...present.splice(rank, 1));
        present = [...present, await member(`n${i}`, strategy)];
        if (rng.below(2) === 0) present.push(await member(`m${i}`, strategy));
      }
      const { results } = await runGeneration(present, { delays: rng });
      for (const result of results) {
        expect(result).toMatchObject({ epochs: EPOCHS });
        if (!(result instanceof Error)) expect(result.losses).toHaveLength(result.steps);
      }
      expect(new Set(present.map(({ rank }) => rank.stateHash())).size).toBe(1);
      dispose([...present, ...gone]);
    }
  });

  test('resumes from a saved state as if it had not stopped', async () => {
    const whole = await members(strategy, 'ab');
    await runGeneration(whole);
    const first = await members(strategy, 'ab');
    // The state is that of the latest exchange, also between two exchanges.
    const until = (): boolean => first[0]!.run.steps === SYNC_EVERY + 1;
    await runGeneration(first, { until });
    const job = parseJob({ ...COUNTING_PLAN, strategy });
    const about = { id: 'c', room: 'K7F3QX', job, savedAt: 0, worldSize: 2 };
    const saved = runStateFromCheckpoint(runStateToCheckpoint(await first[0]!.rank.snapshot(), about));
    expect(saved.progress.step % SYNC_EVERY).toBe(0);
    const second = await Promise.all(
      ['c', 'd'].map((name) =>
        createMember(
          name,
          createCountingTask({ samples: SAMPLES, padding: PADDING }),
          { ...COUNTING_PLAN, strategy, syncEvery: SYNC_EVERY, epochs: EPOCHS },
          { from: saved },
        ),
      ),
    );
    const { results } = await runGeneration(second);
    expect(results[0]).toMatchObject({ epochs: EPOCHS });
    if (strategy === 'local-sgd' || strategy === 'diloco') expect(second[0]!.values()).toEqual(whole[0]!.values());
    dispose([...whole, ...first, ...second]);
  });
});
