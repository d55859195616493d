/**
 * A tab's session, from commands to events. Rooms are the server's own and training is real, but
 * there is no browser.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseJob } from '../../src/spec/job.ts';
import { ALL_STEPS, expectOneModel, JOB, LONG, SessionWorld, tableOf, type Tab } from './sessionWorld.ts';

let world: SessionWorld;
beforeEach(() => {
  world = new SessionWorld();
});
afterEach(() => world.close());

const NO_FILES: File[] = [];

describe('admission', () => {
  test('makes the tab that opens the room host; the tab counts as ready once its files are chosen', async () => {
    const ada = world.tab('Ada', NO_FILES);
    ada.create();
    await world.until('the room is told', () => ada.last('room') !== undefined);
    expect(ada.last('admitted')).toMatchObject({ hostKey: expect.any(String) as string });
    expect(ada.last('room')).toMatchObject({ phase: 'FORMING', hosts: [ada.member], job: JOB, startAt: null });
    await world.pass(1_000);
    expect(ada.isCounted).toBe(false);
    expect(ada.devicesOpened).toHaveLength(0);
    ada.command({ type: 'files', files: tableOf() });
    await world.counted([ada]);
    expect(ada.last('device')).toMatchObject({ device: { backend: 'cpu' } });
    expect(ada.last('preview')).toMatchObject({ problem: null });
    expect(ada.last('state')).toMatchObject({ state: 'WAITING', isServerAway: false });
  });

  test('does not count a tab as ready if its files do not fit the job', async () => {
    const ada = world.tab('Ada', [new File(['one line'], 'own.csv')]);
    ada.create();
    await world.until('the files are inspected', () => typeof ada.last('preview')?.problem === 'string');
    await world.pass(1_000);
    expect(ada.isCounted).toBe(false);
    ada.command({ type: 'files', files: tableOf() });
    await world.counted([ada]);
  });

  test('of a guest is visible to all members, and does not make the guest host', async () => {
    const [ada, bo] = (await world.room(['Ada', 'Bo'])) as [Tab, Tab];
    expect(bo.last('admitted')!.hostKey).toBeNull();
    for (const tab of [ada, bo]) {
      expect(tab.last('room')).toMatchObject({
        hosts: [ada.member],
        members: [
          { member: ada.member, name: 'Ada' },
          { member: bo.member, name: 'Bo' },
        ],
      });
    }
  });

  test.each([
    ['a room that does not exist', 8, { room: 'ZZZZZZ' }, 'There is no room ZZZZZZ here'],
    ['a full room', 1, {}, 'This room is full'],
    ['a rank that another tab has', 8, { rank: 0 }, 'Ada has rank 0 already'],
    ['a rank that does not exist', 8, { rank: 8 }, 'There is no rank 8'],
  ])('is refused for %s', async (_, roomCapacity, wish, message) => {
    world = new SessionWorld({ roomCapacity });
    const [ada] = (await world.room(['Ada'], { rank: 0 })) as [Tab];
    const bo = world.tab('Bo');
    bo.join(ada.room, wish);
    expect(await world.failed(bo)).toMatchObject({
      name: 'SignalingError',
      message: expect.stringContaining(message) as string,
      fatal: true,
    });
    expect(bo.last('state')).toMatchObject({ state: 'OFFLINE' });
    await world.pass(10_000);
    expect(bo.all('failed')).toHaveLength(1);
    expect(ada.last('room')!.members).toHaveLength(1);
  });

  test('is refused in a locked room, unless the tab has the key of the room', async () => {
    const [ada] = (await world.room(['Ada'])) as [Tab];
    ada.command({ type: 'lock', isLocked: true });
    await world.until('the room is locked', () => ada.last('room')!.isLocked);
    const [bo, cy] = [world.tab('Bo'), world.tab('Cy')];
    bo.join(ada.room);
    expect(await world.failed(bo)).toMatchObject({ message: expect.stringContaining('locked') as string, fatal: true });
    cy.join(ada.room, { hostKey: ada.last('admitted')!.hostKey! });
    await world.counted([ada, cy]);
    expect(ada.last('room')!.hosts).toEqual([ada.member, cy.member]);
  });

  test('is refused during a run in a fixed world', async () => {
    const room = world.openRoom({ job: LONG, startAt: 2, nodes: null });
    const [ada, bo, cy] = [world.tab('Ada'), world.tab('Bo'), world.tab('Cy')];
    ada.join(room);
    bo.join(room);
    await world.stepped([ada, bo], 1);
    cy.join(room);
    expect(await world.failed(cy)).toMatchObject({
      message: 'This room is training. Join again when its run has ended.',
      fatal: true,
    });
  });

  test('fails if no server answers', async () => {
    world.stopServer();
    const ada = world.tab('Ada');
    ada.create();
    expect(await world.failed(ada)).toMatchObject({
      message: expect.stringContaining('The signaling server at server does not answer') as string,
      fatal: true,
    });
  });

  test('is tried again if no server answers at first', async () => {
    world.stopServer();
    const ada = world.tab('Ada');
    ada.create();
    await world.pass(100);
    world.startServer();
    await world.admitted(ada);
    expect(ada.last('failed')).toBeUndefined();
  });

  test('fails if the tab has no GPU', async () => {
    const [ada] = (await world.room(['Ada'])) as [Tab];
    const bo = world.tab('Bo');
    bo.removeGpu();
    bo.join(ada.room);
    expect(await world.failed(bo)).toMatchObject({ name: 'DeviceError', message: 'Bo has no GPU.', fatal: true });
    await world.until('Bo has left', () => ada.last('room')!.members.length === 1);
  });
});

describe('an attempt to enter a room', () => {
  test('opens the GPU again if an earlier attempt in this tab has failed', async () => {
    const [ada] = (await world.room(['Ada'])) as [Tab];
    const bo = world.tab('Bo');
    bo.removeGpu();
    bo.join(ada.room);
    await world.failed(bo);
    bo.restoreGpu();
    bo.join(ada.room);
    await world.counted([ada, bo]);
    expect(bo.devicesOpened).toHaveLength(2);
  });

  test('opens the GPU with the kernels of this tab', async () => {
    const [ada, bo] = [world.tab('Ada', NO_FILES), world.tab('Bo')];
    ada.create({ kernels: 'stock' });
    await world.until('the room is open', () => ada.last('admitted') !== undefined);
    bo.join(ada.room);
    await world.counted([bo]);
    ada.command({ type: 'files', files: tableOf() });
    await world.counted([ada]);
    expect([ada.devicesOpened, bo.devicesOpened]).toEqual([['stock'], ['own']]);
  });

  test('is abandoned if a later command enters another room', async () => {
    const resume = await abandonRun();
    const ada = world.tab('Ada');
    ada.create({ resume });
    ada.create({ job: { ...JOB, seed: 2 } });
    await world.until('the room is described', () => ada.last('room') !== undefined);
    await world.pass(1_000);
    expect(ada.all('admitted')).toHaveLength(1);
    expect(ada.last('room')!.job.seed).toBe(2);
  });

  test('leads to the run of this room, even if the device was opened for another room', async () => {
    const [ada] = (await world.room(['Ada'], { job: { ...LONG, hidden: 4, hashEvery: 1 } })) as [Tab];
    ada.command({ type: 'checkpoint-barrier' });
    ada.command({ type: 'start' });
    await world.stepped([ada], 1);
    const [cy] = (await world.room(['Cy'], { job: LONG })) as [Tab];
    const bo = world.tab('Bo');
    bo.join(ada.room);
    await world.until('the device is being opened', () => bo.devicesOpened.length === 1);
    bo.join(cy.room);
    await world.until('Bo is in the other room', () => bo.all('admitted').length === 2);
    await world.counted([cy, bo]);
    cy.command({ type: 'start' });
    await world.finished([cy, bo]);
    expectOneModel([cy, bo]);
  });

  test('is abandoned if the user leaves while a checkpoint is read', async () => {
    const resume = await abandonRun();
    const ada = world.tab('Ada');
    ada.create({ resume });
    ada.command({ type: 'leave' });
    await world.pass(1_000);
    expect(ada.all('admitted')).toEqual([]);
  });
});

describe('a run', () => {
  test('ends with the same state on all ranks', async () => {
    const tabs = await world.run(['Ada', 'Bo', 'Cy']);
    await world.finished(tabs);
    expectOneModel(tabs);
    for (const [rank, tab] of tabs.entries()) {
      expect(tab.steps).toEqual(ALL_STEPS);
      expect(tab.all('generation')).toMatchObject([{ rank, worldSize: 3, run: 1 }]);
      expect(tab.last('finished')!.result).toMatchObject({ worldSize: 3, steps: 12, restarts: 0 });
      expect(tab.all('hashes').map(({ step, agree }) => [step, agree])).toEqual([
        [3, true],
        [7, true],
        [11, true],
      ]);
      expect(tab.all('failed')).toEqual([]);
      expect(tab.last('state')).toMatchObject({ state: 'WAITING' });
    }
  });

  test('begins by itself once the room has enough ready members', async () => {
    const ada = world.tab('Ada');
    ada.create({ startAt: 2 });
    await world.counted([ada]);
    await world.pass(1_000);
    expect(ada.last('room')).toMatchObject({ phase: 'FORMING', waitingFor: 1 });
    const bo = world.tab('Bo');
    bo.join(ada.room);
    await world.finished([ada, bo]);
  });

  test('trains the job that the host has set', async () => {
    const tabs = await world.room(['Ada', 'Bo']);
    const job = { ...JOB, maxSteps: 4 };
    tabs[0]!.command({ type: 'configure', job });
    await world.until('all know the job', () => tabs.every((tab) => tab.last('room')!.job.maxSteps === 4));
    tabs[0]!.command({ type: 'start' });
    await world.finished(tabs);
    expect(tabs[1]!.steps).toEqual([0, 1, 2, 3]);
  });

  test('begins with a new model after another run in the same room', async () => {
    const tabs = await world.run(['Ada', 'Bo']);
    await world.finished(tabs);
    await world.counted(tabs);
    tabs[0]!.command({ type: 'start' });
    await world.finished(tabs, 2);
    expectOneModel(tabs);
    const [first, second] = tabs[1]!.all('finished');
    expect(second!.result.stateHash).toEqual(first!.result.stateHash);
    expect(tabs[1]!.steps).toEqual([...ALL_STEPS, ...ALL_STEPS]);
    expect(tabs[1]!.all('generation').map(({ run }) => run)).toEqual([1, 2]);
  });

  test('ends for all when the host stops it', async () => {
    const tabs = await world.run(['Ada', 'Bo'], { job: LONG });
    tabs[0]!.command({ type: 'stop' });
    for (const tab of tabs) expect(await world.failed(tab)).toMatchObject({ name: 'RunOverError', fatal: false });
    await world.until('the room forms again', () => tabs.every((tab) => tab.last('room')!.phase === 'FORMING'));
    await world.counted(tabs);
    tabs[0]!.command({ type: 'start' });
    await world.finished(tabs);
  });

  test('can only be started by a host', async () => {
    const [ada, bo] = (await world.room(['Ada', 'Bo'])) as [Tab, Tab];
    bo.command({ type: 'start' });
    expect(await world.failed(bo)).toMatchObject({ name: 'SignalingError', fatal: false });
    ada.command({ type: 'start' });
    await world.finished([ada, bo]);
  });

  test('sends the state of the run to a rank that joins late', async () => {
    const tabs = await world.run(['Ada', 'Bo'], { job: LONG, steps: 5 });
    const cy = world.tab('Cy');
    cy.join(tabs[0]!.room);
    await world.finished([...tabs, cy]);
    expectOneModel([...tabs, cy]);
    expect(cy.steps[0]).toBeGreaterThanOrEqual(5);
    expect(tabs[0]!.last('finished')!.result.restarts).toBe(1);
  });

  test('rejects a rank with different files until it has the files of the other ranks', async () => {
    const [ada, bo] = (await world.room(['Ada', 'Bo'], { job: LONG })) as [Tab, Tab];
    const cy = world.tab('Cy', tableOf(41));
    cy.join(ada.room);
    await world.counted([ada, bo, cy]);
    ada.command({ type: 'start' });
    expect(await world.failed(cy)).toMatchObject({ name: 'DataError', fatal: false });
    await world.stepped([ada, bo], 5);
    expect(ada.last('generation')!.worldSize).toBe(2);
    expect(cy.steps).toEqual([]);
    cy.command({ type: 'files', files: tableOf() });
    await world.finished([ada, bo, cy]);
    expectOneModel([ada, bo, cy]);
  });

  test("distributes the host's files to all ranks", async () => {
    const job = parseJob({ ...JOB, data: { kind: 'shared', files: [] } });
    const ada = world.tab('Ada', NO_FILES);
    ada.create({ job });
    await world.until('Ada is in the room', () => ada.last('room') !== undefined);
    ada.command({ type: 'files', files: tableOf() });
    const bo = world.tab('Bo', NO_FILES);
    bo.join(ada.room);
    await world.counted([ada, bo]);
    expect(ada.last('reading')).toMatchObject({ bytes: tableOf()[0]!.size, total: tableOf()[0]!.size });
    ada.command({ type: 'start' });
    await world.finished([ada, bo]);
    expectOneModel([ada, bo]);
    expect(bo.last('distribution')!.bytesPerRank).toEqual([tableOf()[0]!.size, tableOf()[0]!.size]);
  });

  test('distributes files that the host chose before its room was open', async () => {
    const ada = world.tab('Ada');
    ada.create({ job: parseJob({ ...JOB, data: { kind: 'shared', files: [] } }) });
    await world.admitted(ada);
    const bo = world.tab('Bo', NO_FILES);
    bo.join(ada.room);
    await world.counted([ada, bo]);
    ada.command({ type: 'start' });
    await world.finished([ada, bo]);
    expectOneModel([ada, bo]);
  });

  test('ignores files that a guest chose for an earlier room', async () => {
    const ada = world.tab('Ada');
    ada.create({ job: parseJob({ ...JOB, data: { kind: 'shared', files: [] } }) });
    await world.admitted(ada);
    const bo = world.tab('Bo', tableOf(41));
    bo.join(ada.room);
    await world.counted([ada, bo]);
    ada.command({ type: 'start' });
    await world.finished([ada, bo]);
    expectOneModel([ada, bo]);
    expect(bo.all('failed')).toEqual([]);
  });

  test('waits at each checkpoint barrier until the checkpoint is saved', async () => {
    const tabs = await world.room(['Ada', 'Bo']);
    tabs[0]!.command({ type: 'checkpoint-barrier' });
    tabs[0]!.command({ type: 'start' });
    await world.until('ranks have compared states', () => tabs[0]!.last('hashes') !== undefined);
    await world.pass(2_000);
    expect(tabs[1]!.step).toBe(3);
    tabs[0]!.command({ type: 'checkpoint-saved', step: 7 });
    await world.stepped(tabs, 8);
    tabs[0]!.command({ type: 'checkpoint-saved', step: 11 });
    await world.finished(tabs);
  });

  test('reports hidden pages to all ranks', async () => {
    const tabs = await world.room(['Ada', 'Bo']);
    tabs[1]!.command({ type: 'visibility', isHidden: true, isWatched: false });
    tabs[0]!.command({ type: 'start' });
    await world.finished(tabs);
    expect(tabs[0]!.last('telemetry')!.ranks.map(({ isHidden }) => isHidden)).toEqual([false, true]);
  });

  test('leaves a model and a flight recording, and another run can start from the weights of the model', async () => {
    const [ada] = (await world.run(['Ada'])) as [Tab];
    await world.finished([ada]);
    ada.command({ type: 'export', id: 7, format: 'safetensors', which: 'last' });
    ada.command({ type: 'recording' });
    await world.until('the model is exported', () => ada.last('exported') !== undefined);
    const { id, file } = ada.last('exported')!;
    expect(ada.last('exported')!.problem).toBeNull();
    expect([id, file?.step]).toEqual([7, 12]);
    expect(ada.last('recording')!.recording).not.toBeNull();
    const bo = world.tab('Bo');
    bo.create({ origin: new File([file!.content], file!.name) });
    await world.counted([bo]);
    expect(bo.last('weights')).toEqual({ type: 'weights', file: file!.name, notes: [] });
    bo.command({ type: 'start' });
    await world.finished([bo]);
    expect(bo.last('finished')!.result.losses[0]).toBeLessThan(ada.last('finished')!.result.losses[0]!);
  });
});

describe('a lesson', () => {
  test('shows all ranks the page that the host chooses, and ends for all when the host ends it', async () => {
    const [ada, bo] = (await world.room(['Ada', 'Bo'], { job: parseJob({ job: 'lesson' }) })) as [Tab, Tab];
    expect(ada.devicesOpened).toHaveLength(0);
    ada.command({ type: 'start' });
    await world.until('the lesson begins', () => [ada, bo].every((tab) => tab.last('lesson') !== undefined));
    ada.command({ type: 'lesson', order: { type: 'page', page: 3 } });
    await world.until('all are on the page', () => [ada, bo].every((tab) => tab.last('lesson')!.state.page === 3));
    ada.command({ type: 'lesson', order: { type: 'finish' } });
    await world.until('the lesson ends', () => [ada, bo].every((tab) => tab.last('room')!.phase === 'FORMING'));
    expect(bo.last('lesson')!.state.isOver).toBe(true);
    expect([...ada.all('failed'), ...bo.all('failed')]).toEqual([]);
  });
});

describe('a spectator', () => {
  test('that joins late sees the run to its end', async () => {
    const tabs = await world.run(['Ada', 'Bo'], { job: LONG, steps: 5 });
    const eve = world.tab('Eve', NO_FILES);
    eve.join(tabs[0]!.room, { isSpectator: true });
    await world.until('it sees steps', () => eve.steps.length > 0);
    expect(eve.last('generation')).toMatchObject({ worldSize: 2, run: 1 });
    expect(tabs[0]!.last('room')!.spectators).toEqual([{ member: eve.member, name: 'Eve' }]);
    await world.finished([...tabs, eve]);
    expectOneModel([...tabs, eve], 2);
    const losses = new Map(tabs[0]!.all('step').map(({ step, loss }) => [step, loss]));
    for (const { step, loss } of eve.all('step')) expect(loss).toBeCloseTo(losses.get(step)!, 3);
    expect(eve.devicesOpened).toHaveLength(0);
    expect(tabs[0]!.last('finished')!.result.restarts).toBe(0);
  });
});

/** Resolves with the stored checkpoints of all tabs. */
const stored = async () => (await world.checkpoints.list()).checkpoints;

/**
 * Two tabs train until a checkpoint is saved, and then leave. Resolves with the checkpoint's id.
 */
async function abandonRun(): Promise<string> {
  const tabs = await world.run(['Ada', 'Bo'], { steps: 5 });
  await world.until('one is saved', () => tabs.some((tab) => tab.last('saved') !== undefined));
  for (const tab of tabs) tab.command({ type: 'leave' });
  return (await stored())[0]!.id;
}

describe('checkpoints', () => {
  test('are saved while a run trains, and removed once the run has finished', async () => {
    const tabs = await world.run(['Ada', 'Bo'], { steps: 5 });
    await world.until('one is saved', () => tabs.some((tab) => tab.last('saved') !== undefined));
    expect((await stored()).map(({ step, room }) => [step, room])).toContainEqual([4, tabs[0]!.room]);
    await world.finished(tabs);
    await world.pass(100);
    expect(await stored()).toEqual([]);
  });

  test('allow another room to continue an abandoned run; the next run of that room starts with new parameters', async () => {
    const heirs = await world.room(['Cy', 'Di'], { resume: await abandonRun() });
    expect(heirs[0]!.last('checkpoint')).toEqual({ type: 'checkpoint', step: 4 });
    heirs[0]!.command({ type: 'start' });
    await world.finished(heirs);
    expectOneModel(heirs);
    for (const heir of heirs) expect(heir.steps).toEqual(ALL_STEPS.slice(4));
    await world.pass(100);
    expect(await stored()).toEqual([]);
    await world.counted(heirs);
    heirs[0]!.command({ type: 'start' });
    await world.finished(heirs, 2);
    for (const heir of heirs) expect(heir.steps).toEqual([...ALL_STEPS.slice(4), ...ALL_STEPS]);
  });

  test('have no effect on a run with a different job', async () => {
    const heirs = await world.room(['Cy'], { resume: await abandonRun() });
    heirs[0]!.command({ type: 'configure', job: { ...JOB, seed: 2 } });
    await world.until('the job is told', () => heirs[0]!.last('room')!.job.seed === 2);
    await world.counted(heirs);
    heirs[0]!.command({ type: 'start' });
    await world.finished(heirs);
    expect(heirs[0]!.steps).toEqual(ALL_STEPS);
  });

  test('that do not exist cannot be resumed, and no room is opened', async () => {
    const ada = world.tab('Ada');
    ada.create({ resume: 'ABCDEF-member-4' });
    expect(await world.failed(ada)).toMatchObject({ name: 'DataError', fatal: true });
    expect(ada.last('admitted')).toBeUndefined();
  });
});
