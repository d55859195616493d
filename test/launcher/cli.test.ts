import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { CATALOGUE } from '../../examples/catalogue.ts';
import { runCli } from '../../launcher/cli.ts';
import manifest from '../../packages/peergrad-cli/package.json' with { type: 'json' };
import { resolveJob, resolveTraining } from '../../launcher/options/jobOptions.ts';
import { startSignaling } from '../../signaling/index.ts';
import { runTools } from '../../tools/cli.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-cli-'));
});
afterAll(() => rm(folder, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

const TOOLS = /^(chaos|crash-recovery) /;

/** Runs a command line in this process. */
async function cli(line: string, env?: Record<string, string>) {
  const out: string[] = [];
  const err: string[] = [];
  const { signal } = new AbortController();
  const io = { out: (l: string) => void out.push(l), err: (l: string) => void err.push(l), terminal: null, signal };
  // The tools have a command line of their own.
  const code = await (TOOLS.test(line) ? runTools(line.split(' '), io) : runCli(line.split(' '), io, env));
  return { code, out: out.join('\n'), err: err.join('\n') };
}

describe('bad arguments exit with 2 and one sentence', () => {
  test.each([
    ['run --frobnicate', /unknown option '--frobnicate'/],
    ['frobnicate', /unknown command 'frobnicate'/],
    ['check-network', /missing required argument 'url'/],
    ['check-network nowhere', /"nowhere" is not the address of a page/],
    ['run elsewhere', /elsewhere cannot be read/],
    ['run elsewhere twice', /too many arguments/],
    ['run --job chess', /'chess' is invalid.*digits, mnist, images, table, gpt, lesson/],
    ['run --tabs 7 --algorithm two-level', /two-level needs groups of equal size, but 7 ranks cannot be divided/],
    ['run --algorithm doubling --codec int8', /doubling supports only the codecs fp32 and powersgd/],
    ['run --model rnn', /'rnn' is invalid.*mlp, cnn/],
    ['run --kernels fast', /'fast' is invalid.*own, stock/],
    ['run --optimizer magic', /'magic' is invalid.*sgd/],
    ['run --tabs 0', /whole number from 1 to 256/],
    ['run --tabs many', /whole number from 1 to 256/],
    ['run --steps 1.5', /'1.5' is invalid.*whole number/],
    ['run --steps 0', /maxSteps/],
    ['run --batch 100000', /batchSize/],
    ['run --lr fast', /'fast' is invalid.*number/],
    ['run --lr -1', /learningRate/],
    ['run --loss magic', /'magic' is invalid.*cross-entropy, mean-squared-error/],
    ['run --loss huber', /loss: huber is for amounts, but this job predicts classes/],
    ['run --metrics accuracy,f1', /metrics\[1\].*"top-3"/],
    ['run --augment flip,blur', /augment\[1\].*"colour"/],
    ['run --job gpt --augment flip', /augment: the job gpt has no pictures to change/],
    ['run --nnodes two', /whole number from 1 to 256/],
    ['run --nnodes 2', /--master-addr/],
    ['run --tabs 2 --nproc-per-node 3', /--tabs 2 and --nproc-per-node 3/],
    ['run --node-rank 4 --nnodes 4 --master-addr 10.0.0.1', /no node rank 4 with --nnodes 4/],
    ['run --master-port 0', /whole number from 1 to 65535/],
    ['run --max-restarts -1', /whole number/],
    ['run --turn turn:host', /--turn-secret/],
    ['run --relay-only', /--relay-only needs a TURN server/],
    ['run --server-links-rate 5 --server-links off', /--server-links-rate has no effect with --server-links off/],
    ['run --gpu none', /auto, software, hardware/],
    ['run --backend cuda', /auto, webgpu, wasm/],
    ['run --job mnist', /--data/],
    ['run --job lesson', /does not train/],
    [
      'run --job digits --data /nowhere/at/all',
      /\/nowhere\/at\/all cannot be read\. Pass a folder with train-images-idx3-ubyte/,
    ],
    ['run --measure learning-rate --steps 5', /requires maxSteps of 20 to 1000/],
    ['run --measure methods --strategy diloco', /a measurement requires the strategy ddp/],
    ['run --measure learning-rate --out model.safetensors', /does not train the model\. Remove --out and --checkpoint/],
    ['run --strategy pipeline --out model.zip', /no tab of a pipeline has all layers\. .* ends in \.safetensors\./],
    ['run --job gpt --out model.weights.h5', /not made of TensorFlow\.js layers\. .* ends in \.safetensors\./],
    ['run --stages 4', /stages: ddp has no such setting: remove it, or choose a strategy that has it \(pipeline\)/],
    ['run --strategy pipeline --checkpoint a.peergrad', /A run with the strategy pipeline has no checkpoints/],
    ['run --strategy diloco --from model.safetensors', /model.safetensors cannot be read/],
    ['run --screenshot /nowhere/at/all.png', /folder of \/nowhere\/at\/all.png does not exist/],
    ['run --browser /nowhere/chrome', /no browser at \/nowhere\/chrome/],
    ['chaos --tabs 2', /whole number from 3 to 255/],
    ['chaos --minutes 0', /whole number from 1 to 1440/],
    ['chaos --job mnist', /--data/],
    ['chaos --strategy parameter-server', /ddp/],
    ['crash-recovery --tabs 5', /whole number from 1 to 4/],
    ['crash-recovery --kills 0', /whole number from 1 to 1000/],
    ['crash-recovery --strategy parameter-server', /ddp/],
    ['crash-recovery --steps 15', /--steps to at least twice --hash-every/],
    ['serve --port 99999', /from 0 to 65535/],
    ['serve --cert /nowhere.pem --key /nowhere.pem', /\/nowhere.pem cannot be read/],
    ['serve --cert /nowhere.pem', /Pass both/],
    ['serve --turn turn:host', /--turn-secret/],
    ['serve --stun host', /not a STUN address/],
    ['serve --relay-only', /--relay-only needs a TURN server/],
    ['serve --server-links maybe', /'maybe' is invalid.*off, on, only/],
    ['serve --server-links-rate 0', /'0' is invalid\. The rate must be at least 0\.1 MB\/s/],
    ['serve --server-links-rate fast', /'fast' is invalid.*at least 0\.1/],
    ['serve --origin class.example', /"class.example" is not an origin/],
    ['join http://127.0.0.1:8080/', /not the address of a room/],
    ['join K7F3QX', /not the address of a room/],
    ['join', /missing required argument/],
    ['example chess', /'chess' is invalid.*sampler, toyModel/],
    ['example sampler --tabs 0', /whole number from 1 to 256/],
    ['example sampler --data .', /sampler does not use data\. Remove --data, or run partitionedMnist\./],
    ['example partitionedMnist --data /nowhere/at/all', /\/nowhere\/at\/all cannot be read/],
  ])('%s', async (line, sentence) => {
    const { code, out, err } = await cli(line);
    expect(err).toMatch(sentence);
    expect(err.split('\n')).toHaveLength(1);
    expect([code, out]).toEqual([2, '']);
  });

  test.each([
    ['run', { RANK: '4', WORLD_SIZE: '4' }, /no RANK 4 in a world of 4/],
    [
      'run --nnodes 2 --node-rank 1',
      { NODE_RANK: '0' },
      /--node-rank 1 contradicts the environment, where NODE_RANK is 0/,
    ],
    ['join http://127.0.0.1:8080/#K7F3QX --tabs 2', { RANK: '1' }, /RANK 1 .* 2 tabs/],
  ])('%s with %j', async (line, env, sentence) => {
    const { code, out, err } = await cli(line, env);
    expect(err).toMatch(sentence);
    expect(err.split('\n')).toHaveLength(1);
    expect([code, out]).toEqual([2, '']);
  });

  test('a command line without a command shows the help', async () => {
    const { code, err } = await cli('--');
    expect(code).toBe(2);
    expect(err).toContain('Usage: peergrad');
  });

  test('PEERGRAD_BROWSER with a path that does not exist', async () => {
    vi.stubEnv('PEERGRAD_BROWSER', '/nowhere/chrome');
    const { code, err } = await cli('run');
    expect([code, err]).toEqual([2, expect.stringContaining('PEERGRAD_BROWSER')]);
  });
});

test.each([
  ['join', /until server and room exist; a single tab requests the rank in the environment variable RANK, if set/],
  [
    'crash-recovery',
    /report how many steps were lost, and whether the final state is equal to that of an undisturbed run/,
  ],
])('the help of %s says what the command does', async (command, sentence) => {
  const { out } = await cli(`${command} --help`);
  expect(out.replaceAll(/\s+/g, ' ')).toMatch(sentence);
});

test('the option --version prints the version of the package', async () => {
  expect(await cli('--version')).toMatchObject({ code: 0, out: manifest.version });
});

test('the option --help exits with 0', async () => {
  const { code, out } = await cli('run --help');
  expect(code).toBe(0);
  expect(out).toContain('--tabs');
});

test('the command example without a name lists the examples, one in each line', async () => {
  const { code, out } = await cli('example');
  expect(code).toBe(0);
  expect(out.split('\n')).toHaveLength(CATALOGUE.length);
  expect(out).toMatch(/^sampler +DistributedSampler divides/);
});

test('a process that does not have rank 0 lists its options that are ignored', async () => {
  const brief = await startSignaling({ logLevel: 'silent' });
  const { port } = brief;
  await brief.close();
  const other = `--nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port ${port} --browser ${process.execPath}`;
  const { code, err } = await cli(`run job.json ${other} --job digits --hash-every 5 --stun stun:host --timeout 1`);
  expect(err.split('\n')[0]).toBe(
    'Only the process that has rank 0 uses these options, so they are ignored here: job.json, --job, --hash-every, --stun.',
  );
  expect(code).toBe(1);
});

test('the command exits with 1 if its port is in use', async () => {
  const server = await startSignaling({ logLevel: 'silent' });
  const { code, err } = await cli(`serve --port ${server.port}`);
  await server.close();
  expect(err).toMatch(/Port \d+ on 0\.0\.0\.0 is in use/);
  expect(code).toBe(1);
});

test('the program `peergrad` prints the error of a bad argument and exits with 2', async () => {
  const bin = path.resolve(import.meta.dirname, '../../launcher/bin.js');
  const failure: unknown = await promisify(execFile)(process.execPath, [bin, 'run', '--job', 'chess']).catch(
    (error: unknown) => error,
  );
  expect(failure).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^peergrad: .*\n$/) as string });
});

describe('the job of a command line', () => {
  test('a preset whose model needs a pipeline chooses a pipeline, unless the job names another strategy', async () => {
    const large = { job: 'gpt', preset: 'gpt2' } as const;
    const chosen = [{}, { strategy: 'pipeline', stages: 3 }, { strategy: 'ddp' }];
    const jobs = await Promise.all(chosen.map(async (options) => (await resolveJob({ ...large, ...options })).job));
    expect(jobs.map(({ strategy, stages, recompute }) => [strategy, stages, recompute])).toEqual([
      ['pipeline', 4, true],
      ['pipeline', 3, true],
      ['ddp', 1, false],
    ]);
    const file = path.join(folder, 'diloco.json');
    await writeFile(file, '{"peergrad": 1, "job": "gpt", "strategy": "diloco", "syncEvery": 4}');
    const { job } = await resolveJob({ file, preset: 'gpt2' });
    expect(job).toMatchObject({ strategy: 'diloco', syncEvery: 4, stages: 1 });
  });

  test('has the values of the options, and defaults for other fields', async () => {
    const { job, served: data } = await resolveJob({ lr: 0.1, steps: 40 });
    expect(job).toMatchObject({ job: 'digits', learningRate: 0.1, maxSteps: 40, data: { kind: 'synthetic' } });
    expect(data).toBeNull();
  });

  test('has the fields of a job file, and options override them', async () => {
    const file = path.join(folder, 'job.json');
    await writeFile(file, '{"peergrad": 1, "job": "digits", "model": "cnn", "batchSize": 8, "seed": 7}');
    expect((await resolveJob({ file, batch: 16 })).job).toMatchObject({
      model: 'cnn',
      batchSize: 16,
      seed: 7,
      epochs: 1,
    });
    await writeFile(file, '{"peergrad": 1, "job": "gpt", "gpt": {"layers": 2}, "maxSteps": 7}');
    const written = await resolveJob({ file, prompt: 'A' }, { minutes: 3 });
    expect(written.job).toMatchObject({ gpt: { layers: 2, width: 64, prompt: 'A' }, maxSteps: 7, maxMinutes: 3 });
    await writeFile(file, '{"peergrad": 1,\n"optimiser": "adam"}');
    await expect(resolveJob({ file })).rejects.toThrow(
      'job.json, line 2: optimiser: there is no such field; did you mean optimizer.',
    );
    await expect(resolveJob({ file: path.join(folder, 'gone.json') })).rejects.toThrow(/gone\.json cannot be read/);
  });

  test('needs --data in headless tabs if the user would choose the files on the page', async () => {
    const file = path.join(folder, 'people.json');
    await writeFile(file, '{"peergrad": 1, "job": "table", "target": "b"}');
    expect((await resolveJob({ file })).job.data).toEqual({ kind: 'files' });
    await expect(resolveTraining({ file })).rejects.toThrow(/pass --data with a CSV file, or with a URL/);
    const csv = path.join(folder, 'rows.csv');
    await writeFile(csv, 'a,b');
    const { job, served } = await resolveTraining({ file, data: csv });
    expect({ job, served }).toMatchObject({ job: { target: 'b', data: { url: '/data/rows.csv' } }, served: csv });
  });

  test('has the URL of the file or folder that the launcher serves, or the URL in --data', async () => {
    const own = path.join(folder, 'own');
    await mkdir(path.join(own, 'pets/cats'), { recursive: true });
    await expect(resolveJob({ job: 'images', data: own })).rejects.toThrow(/contains no pictures/);
    await writeFile(path.join(own, 'pets/cats/1.png'), '');
    const images = await resolveJob({ job: 'images', data: own, side: 16, channels: 1 });
    expect(images).toMatchObject({ job: { data: { url: '/data/' }, side: 16, channels: 1 }, served: own });
    const csv = path.join(own, 'my houses.csv');
    await writeFile(csv, 'a,b');
    const table = await resolveJob({ job: 'table', data: csv, target: 'b', task: 'regression' });
    expect(table).toMatchObject({ job: { data: { url: '/data/my%20houses.csv' }, target: 'b' }, served: csv });
    const remote = await resolveJob({ job: 'table', data: 'https://a.example/x.csv' });
    expect(remote).toMatchObject({ job: { data: { url: 'https://a.example/x.csv' } }, served: null });
    await expect(resolveJob({ job: 'table', data: own })).rejects.toThrow(
      `${own} is a folder, but a table is one file.`,
    );
    await expect(resolveJob({ job: 'table' })).rejects.toThrow(/Pass --data with a CSV file/);
    await expect(resolveJob({ job: 'table', data: path.join(own, 'gone.csv') })).rejects.toThrow(
      /cannot be read\. Pass a CSV file/,
    );
  });

  test('has for mnist the URL of the folder that the launcher serves, or the URL in --data', async () => {
    await writeFile(path.join(folder, 't10k-images-idx3-ubyte.gz'), '');
    await expect(resolveJob({ job: 'mnist', data: folder })).rejects.toThrow(/contains no pair of images and labels/);
    await writeFile(path.join(folder, 't10k-labels-idx1-ubyte'), '');
    const local = await resolveJob({ job: 'mnist', data: folder });
    expect(local).toMatchObject({ job: { data: { kind: 'url', url: '/data/' } }, served: folder });
    const remote = await resolveJob({ job: 'mnist', data: 'https://a.example/mnist' });
    expect(remote).toMatchObject({ job: { data: { url: 'https://a.example/mnist/' } }, served: null });
  });
});
