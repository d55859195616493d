/**
 * The command line of the tools: `chaos` trains under faults, `crash-recovery` checks the recovery
 * from crashes, `elastic` checks the library's elastic jobs, `pipeline-recovery` checks pipelines
 * that lose a stage.
 */
import { Option, type Command } from 'commander';
import { MAX_WORLD_SIZE } from '../src/protocol/scalars.ts';
import { TABS_PER_SOFTWARE_GPU } from '../launcher/browser/browser.ts';
import type { Io } from '../launcher/io.ts';
import { addBackendOption, addBrowserOptions, RUN_TIMEOUT_S } from '../launcher/options/browserOptions.ts';
import { addJobOptions, wholeNumber } from '../launcher/options/jobOptions.ts';
import { createProgram, runProgram } from '../launcher/options/program.ts';
import { chaos, type ChaosOptions } from './chaos/chaos.ts';
import { MIN_TABS } from './chaos/schedule.ts';
import { elastic, type ElasticOptions } from './elastic/elastic.ts';
import { pipelineRecovery, type PipelineRecoveryOptions } from './pipelineRecovery/pipelineRecovery.ts';
import { crashRecovery, type CrashRecoveryOptions } from './crashRecovery/crashRecovery.ts';

/** Default timeout of a run under faults, in seconds. */
const CHAOS_TIMEOUT_S = 2 * 60 * 60;
/** The longest run under faults, in minutes (one day). */
const MAX_MINUTES = 24 * 60;
/** The largest number of kills in a run. */
const MAX_KILLS = 1000;
/** The largest number of jobs of `elastic`, and of runs of `pipeline-recovery`. */
const MAX_SEEDS = 1000;

/** The fewest and the most steps of a run of `pipeline-recovery`. */
const RECOVERY_STEPS = { min: 6, max: 1000 };

/** Runs one command line (without `node` and the script); see {@link runProgram}. */
export function runTools(argv: readonly string[], io: Io): Promise<number> {
  return runProgram(buildProgram(io), argv, io);
}

function buildProgram(io: Io): Command {
  const program = createProgram('tools', 'Checks of peergrad itself, with headless tabs.', io);

  const chaosCommand = program
    .command('chaos')
    .description(
      'train with N headless tabs, each in its own browser, inject every supported fault and report recovery',
    )
    // One rank is left free for the copy of a duplicated tab.
    .option('--tabs <n>', 'number of tabs', wholeNumber(MIN_TABS, MAX_WORLD_SIZE - 1), 4)
    .option(
      '--minutes <n>',
      'length of the run in minutes (default: 3); with --epochs or --steps, faults are injected for this time (default: until the run has ended)',
      wholeNumber(1, MAX_MINUTES),
    )
    .option('--json', 'print the report as one JSON object, last on stdout')
    .option('--headed', 'show the browsers');
  addBrowserOptions(addBackendOption(chaosCommand), CHAOS_TIMEOUT_S);
  addJobOptions(chaosCommand).action((options: ChaosOptions) => chaos(options, io));

  const crashRecoveryCommand = program
    .command('crash-recovery')
    .description(
      'train with N headless tabs, kill all tabs at random steps, continue from the checkpoint each time, and report how many ' +
        'steps were lost, and whether the final state is equal to that of an undisturbed run',
    )
    .option('--tabs <n>', 'number of tabs', wholeNumber(1, TABS_PER_SOFTWARE_GPU), 2)
    .option('--kills <n>', 'number of times that all tabs are killed', wholeNumber(1, MAX_KILLS), 20)
    .option('--json', 'print the report as one JSON object, last on stdout');
  addBrowserOptions(addBackendOption(crashRecoveryCommand), RUN_TIMEOUT_S);
  addJobOptions(crashRecoveryCommand).action((options: CrashRecoveryOptions) => crashRecovery(options, io));

  program
    .command('elastic')
    .description(
      "run the library's elastic jobs in four headless tabs, kill one tab at a random step while another joins, and report " +
        'samples that were skipped or repeated, and whether the final weights are equal',
    )
    .option('--seeds <n>', 'number of jobs, each with its own random steps', wholeNumber(1, MAX_SEEDS), 20)
    .addOption(new Option('--backend <name>', 'backend of the tabs').choices(['cpu', 'webgpu']).default('cpu'))
    .option('--browser <path>', 'path of Chrome, Chromium or Edge (default: PEERGRAD_BROWSER, or the first one found)')
    .option('--json', 'print the report as one JSON object, last on stdout')
    .action((options: ElasticOptions) => elastic(options, io));

  program
    .command('pipeline-recovery')
    .description(
      'train with pipelines in N headless tabs, kill one tab with its stage at a random point of each run, and report samples that were ' +
        'skipped or repeated, whether the states of the other tabs are equal, and the steps that were lost',
    )
    .option('--seeds <n>', 'number of runs, each with its own random point', wholeNumber(1, MAX_SEEDS), 20)
    .option('--tabs <n>', 'number of tabs', wholeNumber(3, MAX_WORLD_SIZE), 4)
    .option(
      '--stages <n>',
      'stages of a replica of the model (default: one for each tab)',
      wholeNumber(2, MAX_WORLD_SIZE),
    )
    .option('--steps <n>', 'steps of a run', wholeNumber(RECOVERY_STEPS.min, RECOVERY_STEPS.max), 24)
    .option('--browser <path>', 'path of Chrome, Chromium or Edge (default: PEERGRAD_BROWSER, or the first one found)')
    .option('--json', 'print the report as one JSON object, last on stdout')
    .action((options: PipelineRecoveryOptions) => pipelineRecovery(options, io));
  return program;
}
