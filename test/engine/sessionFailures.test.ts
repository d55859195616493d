/**
 * A tab's session when the server, a GPU, a state or a member is lost, and when a run is paused.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RESTORE_MS } from '../../signaling/room/index.ts';
import { ALL_STEPS, expectOneModel, LONG, LONG_STEPS, SessionWorld, type Tab } from './sessionWorld.ts';

let world: SessionWorld;
beforeEach(() => {
  world = new SessionWorld();
});
afterEach(() => world.close());

describe('when the server is lost', () => {
  test('members that are not in a run reconnect to their room', async () => {
    const tabs = await world.room(['Ada', 'Bo']);
    const members = tabs.map(({ member }) => member);
    world.stopServer();
    await world.until('all know', () => tabs.every(({ isServerAway }) => isServerAway));
    await world.pass(5_000);
    world.startServer();
    await world.until('all are back', () => tabs.every(({ isServerAway }) => !isServerAway));
    // The room waits, because some ranks may still be training.
    await world.pass(RESTORE_MS);
    expect(tabs.map((tab) => tab.member)).toEqual(members);
    expect(tabs.map((tab) => tab.all('admitted').length)).toEqual([2, 2]);
    await world.until('the room is whole', () => tabs.every((tab) => tab.last('room')!.members.length === 2));
    await world.counted(tabs);
    expect(tabs[1]!.last('room')!.hosts).toEqual([tabs[0]!.member]);
    tabs[0]!.command({ type: 'start' });
    await world.finished(tabs);
    expectOneModel(tabs);
  });

  test('members that are not in a run give up after a minute', async () => {
    const [ada] = (await world.room(['Ada'])) as [Tab];
    world.stopServer();
    const lostAt = world.clock.now();
    expect(await world.failed(ada)).toMatchObject({ name: 'SignalingError', fatal: true });
    expect(world.clock.now() - lostAt).toBeGreaterThan(60_000);
    expect(ada.last('state')).toMatchObject({ state: 'OFFLINE' });
  });

  test('ranks in a run train to the end without the server', async () => {
    const tabs = await world.run(['Ada', 'Bo', 'Cy'], { steps: 2 });
    world.stopServer();
    await world.until('the run ends', () => tabs.every((tab) => tab.last('finished') !== undefined));
    expectOneModel(tabs);
    for (const tab of tabs) {
      expect(tab.steps).toEqual(ALL_STEPS);
      expect(tab.isServerAway).toBe(true);
      expect(tab.all('failed')).toEqual([]);
    }
  });

  test('ranks in a run reconnect to a new server and continue training', async () => {
    const tabs = await world.run(['Ada', 'Bo'], { job: LONG, steps: 2 });
    world.stopServer();
    await world.until('all know', () => tabs.every(({ isServerAway }) => isServerAway));
    world.startServer();
    await world.until('all are back', () => tabs.every(({ isServerAway }) => !isServerAway));
    for (const tab of tabs) expect(tab.finished).toBe(0);
    await world.finished(tabs);
    expectOneModel(tabs);
    for (const tab of tabs) expect(tab.last('finished')!.result.restarts).toBe(0);
    await world.counted(tabs);
    tabs[0]!.command({ type: 'start' });
    await world.finished(tabs, 2);
  });

  test.each(['FORMING', 'RUNNING'])(
    'by one member (phase %s), only this member notices, and reconnects',
    async (phase) => {
      const [ada, bo] = (await world.room(['Ada', 'Bo'], { job: LONG })) as [Tab, Tab];
      if (phase === 'RUNNING') {
        ada.command({ type: 'start' });
        await world.stepped([ada, bo], 2);
      }
      const { member } = bo;
      bo.cutServer();
      expect(bo.isServerAway).toBe(true);
      await world.until('it is back', () => !bo.isServerAway);
      expect(bo.member).toBe(member);
      if (phase === 'FORMING') {
        await world.counted([ada, bo]);
        ada.command({ type: 'start' });
      }
      await world.finished([ada, bo]);
      expectOneModel([ada, bo]);
      expect(ada.last('finished')!.result.restarts).toBe(0);
      expect(ada.all('failed')).toEqual([]);
    },
  );
});

describe('when a GPU is lost', () => {
  test('its rank opens the GPU again and returns with its state, and the other ranks train meanwhile', async () => {
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job: LONG, steps: 3 })) as [Tab, Tab, Tab];
    bo.loseGpu();
    await world.until('Bo is out', () => ada.last('generation')!.worldSize === 2);
    await world.finished([ada, bo, cy]);
    expectOneModel([ada, bo, cy]);
    expect(bo.devicesOpened).toHaveLength(2);
    expect(bo.all('warmup').map(({ stage }) => stage)).toContain('recovering');
    expect(ada.steps).toEqual(LONG_STEPS);
    expect([ada, bo, cy].flatMap((tab) => tab.all('failed'))).toEqual([]);
  });

  test('a rank that is alone continues from its state, and losses in earlier runs do not count', async () => {
    const [ada] = (await world.room(['Ada'])) as [Tab];
    // The run waits after every fourth step. Otherwise a run of one rank would end before the test
    // can act.
    ada.command({ type: 'checkpoint-barrier' });
    for (const run of [1, 2]) {
      ada.command({ type: 'start' });
      for (let loss = 1; loss <= 2; loss++) {
        const compared = ada.all('hashes').length;
        await world.until('states are compared', () => ada.all('hashes').length > compared);
        const opened = ada.devicesOpened.length;
        ada.loseGpu();
        ada.command({ type: 'checkpoint-saved', step: ada.last('hashes')!.step });
        await world.until('the device is opened again', () => ada.devicesOpened.length > opened);
      }
      await world.finished([ada], run);
      await world.counted([ada]);
    }
    expect(ada.devicesOpened).toHaveLength(5);
    expect(ada.steps).toEqual([...ALL_STEPS, ...ALL_STEPS]);
    expect(ada.all('failed')).toEqual([]);
  });

  test('for the fourth time in a run, its rank gives up and the other ranks continue', async () => {
    const job = { ...LONG, maxSteps: 10_000 };
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job, steps: 2 })) as [Tab, Tab, Tab];
    const trainsOn = (tab: Tab): Promise<void> => {
      const { step } = tab;
      return world.until(`${tab.name} trains on`, () => tab.step > step);
    };
    for (let opened = 2; opened <= 4; opened++) {
      bo.loseGpu();
      await world.until('the device is open again', () => bo.devicesOpened.length === opened);
      await trainsOn(bo);
    }
    bo.loseGpu();
    expect(await world.failed(bo)).toMatchObject({
      name: 'DeviceError',
      message: 'The GPU of Bo was lost.',
      fatal: true,
    });
    await world.until('it has left', () => ada.last('room')!.members.length === 2);
    await trainsOn(ada);
    expect([...ada.all('failed'), ...cy.all('failed')]).toEqual([]);
  });

  test('and cannot be opened again, its rank fails and the other ranks finish', async () => {
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job: LONG, steps: 2 })) as [Tab, Tab, Tab];
    bo.removeGpu();
    expect(await world.failed(bo)).toMatchObject({ name: 'DeviceError', message: 'Bo has no GPU.', fatal: true });
    await world.finished([ada, cy]);
    expectOneModel([ada, cy]);
  });
});

describe('a rank with a divergent state', () => {
  test('receives the state of the other ranks', async () => {
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { steps: 1 })) as [Tab, Tab, Tab];
    bo.miscalculate();
    await world.until('states are compared', () => ada.last('hashes') !== undefined);
    expect(ada.last('hashes')).toMatchObject({ step: 3, agree: false });
    await world.finished([ada, bo, cy]);
    expectOneModel([ada, bo, cy]);
    expect(ada.last('finished')!.result.restarts).toBe(1);
    expect([ada, bo, cy].flatMap((tab) => tab.all('failed'))).toEqual([]);
  });

  test('is excluded after the third divergence, and the other ranks finish', async () => {
    const job = { ...LONG, hashEvery: 4 };
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job, steps: 1 })) as [Tab, Tab, Tab];
    const differences = (): number => ada.all('hashes').filter(({ agree }) => !agree).length;
    for (let time = 1; time <= 3; time++) {
      bo.miscalculate();
      await world.until('states differ', () => differences() === time);
      if (time < 3) await world.until('all train again', () => bo.all('generation').length === time + 1);
    }
    expect(await world.failed(bo)).toMatchObject({ name: 'DivergenceError', fatal: false });
    await world.finished([ada, cy]);
    expectOneModel([ada, cy]);
    expect(bo.finished).toBe(0);
  });
});

describe('when a member leaves', () => {
  test('because the host has removed it, this member does not return and the other ranks finish', async () => {
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job: LONG })) as [Tab, Tab, Tab];
    ada.command({ type: 'remove', member: bo.member });
    expect(await world.failed(bo)).toMatchObject({ name: 'RemovedError', fatal: true });
    expect(bo.last('recording')!.recording).not.toBeNull();
    await world.finished([ada, cy]);
    expectOneModel([ada, cy]);
    await world.pass(10_000);
    expect(bo.last('state')).toMatchObject({ state: 'OFFLINE' });
    expect(bo.all('admitted')).toHaveLength(1);
    expect(ada.last('room')!.members.map(({ name }) => name)).toEqual(['Ada', 'Cy']);
  });

  test.each([
    ['leaves the room', (tab: Tab) => tab.command({ type: 'leave' })],
    ['is closed', (tab: Tab) => tab.close()],
  ])('during a run (its tab %s), the other ranks take every step once', async (_, go) => {
    const [ada, bo, cy] = (await world.run(['Ada', 'Bo', 'Cy'], { job: LONG, steps: 3 })) as [Tab, Tab, Tab];
    go(bo);
    await world.finished([ada, cy]);
    expectOneModel([ada, cy]);
    for (const tab of [ada, cy]) {
      expect(tab.steps).toEqual(LONG_STEPS);
      expect(tab.last('generation')!.members.map(({ name }) => name)).toEqual(['Ada', 'Cy']);
    }
    expect(bo.finished).toBe(0);
  });

  test('who was host, the next member is host until the old host returns with the host key', async () => {
    const [ada, bo] = (await world.room(['Ada', 'Bo'])) as [Tab, Tab];
    ada.command({ type: 'leave' });
    await world.until('Bo is the host', () => bo.last('room')!.hosts.includes(bo.member));
    expect(ada.last('state')).toMatchObject({ state: 'OFFLINE' });
    ada.join(bo.room, { hostKey: ada.last('admitted')!.hostKey! });
    await world.counted([ada, bo]);
    await world.until('Ada is the host', () => bo.last('room')!.hosts.join() === ada.member);
    ada.command({ type: 'start' });
    await world.finished([ada, bo]);
  });
});

describe('a run that is paused', () => {
  test('waits for its host, is saved, and continues at the same step', async () => {
    const tabs = await world.run(['Ada', 'Bo'], { job: LONG, steps: 2 });
    tabs[0]!.command({ type: 'pause' });
    await world.until('it pauses', () => tabs.every((tab) => tab.last('room')!.phase === 'PAUSED'));
    await world.pass(5_000);
    expect(tabs[1]!.last('room')).toMatchObject({ isPausedByHost: true, waitingFor: 0 });
    const steps = tabs[1]!.step;
    expect(tabs.some((tab) => tab.last('saved')?.step === steps + 1)).toBe(true);
    tabs[0]!.command({ type: 'resume' });
    await world.finished(tabs);
    expectOneModel(tabs);
    expect(tabs[1]!.steps).toEqual(LONG_STEPS);
  });

  test('because too few ranks are left, continues when another rank joins', async () => {
    const room = world.openRoom({ job: LONG, startAt: 2, nodes: { min: 2, max: 4 } });
    const [ada, bo, cy] = [world.tab('Ada'), world.tab('Bo'), world.tab('Cy')];
    ada.join(room);
    bo.join(room);
    await world.stepped([ada, bo], 3);
    bo.close();
    await world.until('it pauses', () => ada.last('room')!.phase === 'PAUSED');
    expect(ada.last('room')!.waitingFor).toBe(1);
    const { step } = ada;
    await world.pass(5_000);
    expect(ada.step).toBe(step);
    cy.join(room);
    await world.finished([ada, cy]);
    expectOneModel([ada, cy]);
    expect(ada.steps).toEqual(LONG_STEPS);
    expect(cy.steps[0]).toBe(step + 1);
  });
});
