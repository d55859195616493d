/** The launcher's command line. */
import { Argument, type Command, Option } from 'commander';
import { CATALOGUE } from '../examples/catalogue.ts';
import manifest from '../packages/peergrad-cli/package.json' with { type: 'json' };
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import type { CheckNetworkOptions } from './commands/checkNetwork.ts';
import type { ExampleOptions } from './commands/example.ts';
import {
  addBackendOption,
  addBrowserOptions,
  addBrowserPath,
  addKernelsOption,
  MAX_TIMEOUT_S,
  RUN_TIMEOUT_S,
} from './options/browserOptions.ts';
import { addConnectionOptions, collect } from './options/connectionOptions.ts';
import type { Io } from './io.ts';
import { addJobOptions, addLengthOptions, nodes, wholeNumber } from './options/jobOptions.ts';
import type { JoinOptions } from './commands/join.ts';
import type { Environment } from './options/placement.ts';
import { createProgram, runProgram } from './options/program.ts';
import type { RunOptions } from './commands/run.ts';
import type { ServeOptions } from './commands/serve.ts';

/**
 * Default timeout of an example, in seconds. The longest example takes about ten seconds on two
 * slow cores.
 */
const EXAMPLE_TIMEOUT_S = 5 * 60;
/**
 * Default timeout of a network check, in seconds: several times what it takes if all checks fail.
 */
const CHECK_TIMEOUT_S = 120;

const RUN_ENVIRONMENT = `
Environment variables, as in torch.distributed; an option that contradicts one is an error:
  NODE_RANK, MASTER_ADDR, MASTER_PORT   defaults of the options with these names
  WORLD_SIZE                            number of ranks: --nnodes times --nproc-per-node
  RANK                                  without --nnodes: this process is one tab, with this rank of WORLD_SIZE,
                                        and the process with RANK 0 serves
  LOCAL_RANK                            only checked: local ranks are the tabs of a browser
`;

/** The largest `--max-restarts`: in practice, a larger number means endless restarts. */
const MAX_RESTARTS = 1000;
const MAX_PORT = 65535;
const JSON_LINES = '--json-lines';

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export async function runCli(argv: readonly string[], io: Io, env: Environment = process.env): Promise<number> {
  // `--json-lines` is checked before parsing, so that usage errors are JSON lines, too.
  const output = argv.includes(JSON_LINES) ? (await import('./output/jsonLines.ts')).toJsonLines(io) : io;
  return runProgram(buildProgram(output, env), argv, output);
}

/**
 * Each command is imported only when it runs. Importing all commands would delay reports of bad
 * arguments.
 */
function buildProgram(io: Io, env: Environment): Command {
  const program = createProgram(
    'peergrad',
    'Trains in browser tabs: starts a server, or runs and joins rooms with headless tabs.',
    io,
  ).version(manifest.version, '--version', 'print the version');

  const serveCommand = program
    .command('serve')
    .addArgument(jobFile())
    .description('serve the page and the signaling server until Ctrl-C')
    .option('--port <n>', 'port to listen on', wholeNumber(0, MAX_PORT), 8080)
    .option(
      '--host <address>',
      'address to listen on (default: 0.0.0.0, so that other machines reach it; with --trust-proxy: 127.0.0.1)',
    )
    .option('--https', 'serve https with a self-signed certificate')
    .option('--cert <file>', 'certificate for https (PEM)')
    .option('--key <file>', 'key of the certificate (PEM)')
    .option(
      '--origin <url>',
      'public address of this server, or of pages that may connect, e.g. https://class.example (may be repeated)',
      collect,
      [],
    )
    .option('--trust-proxy', 'trust the X-Forwarded-For header of a reverse proxy in front of this server')
    .addOption(
      new Option('--metrics-token <token>', 'bearer token with which other machines may read /metrics').env(
        'PEERGRAD_METRICS_TOKEN',
      ),
    )
    .option('--start-at <n>', 'open a room that starts by itself when n tabs are ready', wholeNumber(1, MAX_WORLD_SIZE))
    .option(
      '--nnodes <min:max>',
      `smallest and largest number of tabs in the room; tabs may join and leave during a run (default with a job: 1:${MAX_WORLD_SIZE})`,
      nodes,
    )
    .addOption(
      new Option('--log <level>', "log level of the server's messages on stderr")
        .choices(['fatal', 'error', 'warn', 'info', 'debug', 'silent'])
        .default('warn'),
    );
  addLengthOptions(addJobOptions(addConnectionOptions(serveCommand))).action(
    async (file: string | undefined, options: ServeOptions) => {
      const { serve } = await import('./commands/serve.ts');
      await serve({ ...options, ...(file !== undefined && { file }) }, io, env);
    },
  );

  const runCommand = program
    .command('run')
    .addArgument(jobFile())
    .description(
      'train with N headless tabs on this machine, or with N tabs on each of several machines, and print the result',
    )
    .option('--tabs <n>', 'number of tabs, each a rank (default: 4)', wholeNumber(1, MAX_WORLD_SIZE))
    .option('--nproc-per-node <n>', "same as --tabs, with torchrun's name", wholeNumber(1, MAX_WORLD_SIZE))
    .option(
      '--nnodes <n>',
      'number of machines, all with the same number of tabs (default: 1); MIN:MAX: machines may join and leave during a run',
      nodes,
    )
    .option(
      '--node-rank <i>',
      "this machine's number, from 0; node 0 runs the server",
      wholeNumber(0, MAX_WORLD_SIZE - 1),
    )
    .option('--master-addr <host>', 'address of node 0; https is used unless it is a loopback address')
    .option('--master-port <p>', 'port of node 0 (default: 29500 with several machines)', wholeNumber(1, MAX_PORT))
    .option('--rdzv-id <text>', 'name of the run, the same on every machine (default: none)')
    .option('--max-restarts <n>', 'restart the whole run up to n times if it fails', wholeNumber(0, MAX_RESTARTS), 0)
    .option('--json', 'print the result as one JSON object, last on stdout')
    .option(JSON_LINES, 'log JSON lines on stderr, one event per line')
    .option('--headed', 'show the browser')
    .option('--screenshot <file>', "write a PNG of rank 0's page after the middle of the run")
    .option('--out <file>', 'write the model at the end: .safetensors, .zip (TensorFlow.js), .weights.h5 (Keras 3)')
    .option('--checkpoint <file>', 'write a checkpoint after each state comparison and on Ctrl-C')
    .option('--resume <file>', 'continue from a checkpoint; the number of tabs may differ')
    .option('--from <file>', 'start with the weights of a file in a format of --out');
  addBrowserOptions(addKernelsOption(addBackendOption(runCommand)), RUN_TIMEOUT_S);
  addLengthOptions(addJobOptions(addConnectionOptions(runCommand)))
    .addHelpText('after', RUN_ENVIRONMENT)
    .action(async (file: string | undefined, options: RunOptions) => {
      const { run } = await import('./commands/run.ts');
      await run({ ...options, ...(file !== undefined && { file }) }, io, env);
    });

  const joinCommand = program
    .command('join')
    .argument('<url>', "the room's address, e.g. https://192.168.1.5:8080/#K7F3QX")
    .description(
      'join a room with N headless tabs until its run has ended; tabs reconnect if they are lost, and wait until server and room ' +
        'exist; a single tab requests the rank in the environment variable RANK, if set',
    )
    .option('--tabs <n>', 'number of tabs', wholeNumber(1, MAX_WORLD_SIZE), 1)
    .option('--name <name>', 'name of the tabs', 'tab')
    .option(
      '--data <path>',
      "file or folder with the tabs' own training data, for rooms in which each tab brings its data",
    )
    .option('--stay', 'stay for later runs, until Ctrl-C or until the host removes the tabs')
    .option(JSON_LINES, 'log JSON lines on stderr, one event per line');
  addBrowserOptions(addKernelsOption(addBackendOption(joinCommand)), null).action(
    async (url: string, options: JoinOptions) => {
      const { join } = await import('./commands/join.ts');
      await join(url, options, io, env);
    },
  );

  addBrowserPath(
    program
      .command('check-network')
      .argument('<url>', "the page's address, e.g. https://192.168.1.5:8080")
      .description(
        'check whether tabs of this machine and of other devices that show the page #network can link; exit code 0 if training will work',
      )
      .option('--json', 'print the results as one JSON object')
      .option(
        '--timeout <seconds>',
        'abort the checks after this time',
        wholeNumber(1, MAX_TIMEOUT_S),
        CHECK_TIMEOUT_S,
      ),
  ).action(async (url: string, options: CheckNetworkOptions) => {
    const { checkNetwork } = await import('./commands/checkNetwork.ts');
    await checkNetwork(url, options, io);
  });

  const exampleCommand = program
    .command('example')
    .addArgument(new Argument('[name]', 'which one').choices(CATALOGUE.map(({ name }) => name)))
    .description(
      'run an example in headless tabs and print the output of every rank; without a name, list the examples',
    )
    .option('--tabs <n>', "number of tabs, each a rank (default: the example's)", wholeNumber(1, MAX_WORLD_SIZE))
    .option('--data <path|url>', 'folder of IDX files, for examples with MNIST (default: generated digits)')
    .option('--headed', 'show the browser');
  addBrowserOptions(exampleCommand, EXAMPLE_TIMEOUT_S).action(
    async (name: string | undefined, options: ExampleOptions) => {
      const { example } = await import('./commands/example.ts');
      await example(name, options, io);
    },
  );
  return program;
}

function jobFile(): Argument {
  return new Argument('[job.json]', 'job file, as saved by the page (docs/JOBS.md); options override its fields');
}
