/** The command `run`, without a browser: a test plays its tabs. */
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import type { trainInTabs } from '../../launcher/trainInTabs.ts';
import { startSignaling } from '../../signaling/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { noRoomMessage } from '../../src/protocol/roomCode.ts';

// Files of one worker share their modules, so the launcher is imported again with these parts.
const tabs = { train: vi.fn<typeof trainInTabs>() };
const MOCKED = {
  '../../launcher/trainInTabs.ts': { trainInTabs: tabs.train },
  '../../launcher/build.ts': { DIST: '/', ensureBuilt: () => Promise.resolve() },
};
vi.resetModules();
for (const [file, parts] of Object.entries(MOCKED)) vi.doMock(file, () => parts);
const { runCli } = await import('../../launcher/cli.ts');
const { PeergradError, TimeoutError } = await import('../../src/util/errors.ts');
afterAll(() => {
  for (const file of Object.keys(MOCKED)) vi.doUnmock(file);
  vi.resetModules();
});
afterEach(() => tabs.train.mockReset());

/** Runs a command line. Any program is its browser, because no browser starts. */
async function run(line: string, controller = new AbortController()) {
  const err: string[] = [];
  const io = { out: () => {}, err: (l: string) => void err.push(l), terminal: null, signal: controller.signal };
  const code = await runCli(['run', '--browser', process.execPath, ...line.split(' ')], io, {});
  return { code, err };
}

async function freePort(): Promise<number> {
  const brief = await startSignaling({ logLevel: 'silent' });
  await brief.close();
  return brief.port;
}

/** Lets the next run end by Ctrl-C, after its checkpoint or before. */
const interrupt = (controller: AbortController, isWritten: boolean) =>
  tabs.train.mockImplementation(({ outputs }) => {
    if (isWritten) outputs.onwritten();
    controller.abort(new Error('Ctrl-C'));
    return Promise.reject(new Error('Ctrl-C'));
  });

test('a node whose --rdzv-id differs from that of node 0 is told so; the message contains no id and no room code of node 0', async () => {
  const server = await startSignaling({ logLevel: 'silent' });
  tabs.train.mockImplementation(({ tabs: [first] }) => {
    const code = /#(\w+)/.exec(first!.url)![1]!;
    return Promise.reject(new PeergradError(`tab-2: ${noRoomMessage(code)}`));
  });
  const nodes = `--nnodes 2 --node-rank 1 --tabs 1 --master-addr 127.0.0.1 --master-port ${server.port}`;
  const results = [await run(`${nodes} --rdzv-id wrong`), await run(nodes)];
  await server.close();
  expect(results.map(({ err }) => err.at(-1))).toEqual([
    `peergrad: The server at http://127.0.0.1:${server.port} has no run with --rdzv-id wrong. It has a run with another id, or no run. Pass the same --rdzv-id on every machine.`,
    `peergrad: The server at http://127.0.0.1:${server.port} has no run without --rdzv-id. It has a run with another id, or no run. Pass the same --rdzv-id on every machine.`,
  ]);
});

test('node 0 prints the command for the other machine, and its timeout names the missing node', async () => {
  const port = await freePort();
  tabs.train.mockImplementation(({ remark }) => {
    remark({ type: 'room', phase: 'FORMING', members: [{ rank: 0 }] } as EngineEvent);
    return Promise.reject(new TimeoutError('The run did not end within 1 s.'));
  });
  const { err } = await run(`--nnodes 2 --node-rank 0 --tabs 1 --master-addr 127.0.0.1 --master-port ${port}`);
  expect(err).toEqual(
    expect.arrayContaining([
      `  peergrad run --nnodes 2 --node-rank 1 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port ${port}`,
      'peergrad: The run did not end within 1 s. 1 of 2 nodes is here; node 1 is missing.',
    ]),
  );
});

test('a run without --out says that it discards its model; Ctrl-C names the checkpoint, or how to get one', async () => {
  const controllers = [new AbortController(), new AbortController()];
  interrupt(controllers[0]!, false);
  const without = await run('--tabs 1', controllers[0]);
  interrupt(controllers[1]!, true);
  const withCheckpoint = await run('--tabs 1 --checkpoint package.json', controllers[1]);
  expect([without, withCheckpoint].map(({ code, err }) => [code, err[0]!.slice(0, 34), err.at(-2)])).toEqual([
    [130, 'The final model will be discarded.', expect.stringMatching(/was not saved.*--checkpoint FILE\.$/)],
    [
      130,
      'The final model will be discarded.',
      'The latest checkpoint is package.json. To continue, pass --resume package.json.',
    ],
  ]);
});
