/** What to train and how to share it: three choices in front, the rest under "advanced". Says what is wrong instead of sending it. */
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import {
  codecsOf,
  kindOfModel,
  parseJob,
  takesFiles,
  type JobSpec,
  type ModelName,
  type PlannedCodec,
  type TaskName,
} from '../../protocol/job.ts';
import { messageOf } from '../../util/errors.ts';
import {
  presetOf,
  withJob,
  withOptimizer,
  withPreset,
  withSource,
  withStrategy,
  workerWord,
  type DataSourceName,
} from '../jobForm.ts';
import { SERVER_DATA, serverHasData } from '../serverData.ts';
import { SETTINGS } from '../strategies.ts';
import { words } from '../words/index.ts';
import { NumberField, Select } from './Fields.tsx';
import { LayerTable } from './LayerTable.tsx';

/** Takes a job, or while something is half typed only looks at it; what is wrong with it, or `null`. */
type Offer = (job: JobSpec, isSettled?: boolean) => string | null;

export function JobForm({
  job,
  columns = [],
  onjob,
  children,
}: {
  job: JobSpec;
  /** Of the table that was given, where one was. */
  columns?: readonly string[];
  onjob: (job: JobSpec) => void;
  /** More rows under "advanced". */
  children?: ComponentChildren;
}) {
  const { job: says } = words.value;
  const offer: Offer = (next, isSettled = true) => {
    try {
      const checked = parseJob(next);
      if (isSettled) onjob(checked);
      return null;
    } catch (error) {
      return messageOf(error);
    }
  };
  const trains = job.job !== 'lesson';
  return (
    <div class="form">
      <div class="fields">
        <Select
          label={says.job}
          value={job.job}
          options={says.jobs}
          onpick={(value) => offer(withJob(job, value, serverHasData.value ? SERVER_DATA : null))}
        />
        {job.job === 'gpt' && <PresetField job={job} offer={offer} />}
        {trains && job.job !== 'gpt' && Object.keys(modelOptions(job)).length > 1 && (
          <Select
            label={says.model}
            value={kindOfModel(job.model)}
            options={modelOptions(job)}
            onpick={(model) => {
              if (model !== 'own') offer({ ...job, model });
            }}
          />
        )}
        {job.job === 'table' && <TableFields job={job} columns={columns} offer={offer} />}
      </div>
      {typeof job.model !== 'string' && <LayerTable model={job.model} />}
      {trains && <StrategyFields job={job} offer={offer} />}
      {(trains || children !== undefined) && (
        <details class="fold">
          <summary>{says.advanced}</summary>
          <div class="fields three">
            {job.job === 'gpt' && <GptFields job={job} offer={offer} />}
            {trains && <TrainingFields job={job} offer={offer} />}
            {job.job === 'images' && <PictureFields job={job} offer={offer} />}
            {takesFiles(job.job) && <DataFields job={job} offer={offer} />}
            {children}
          </div>
        </details>
      )}
    </div>
  );
}

function TrainingFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { job: says } = words.value;
  const set = (change: Partial<JobSpec>, isSettled?: boolean): string | null => offer({ ...job, ...change }, isSettled);
  return (
    <>
      <Select
        label={says.optimizer}
        value={job.optimizer}
        options={says.optimizers}
        onpick={(value) => offer(withOptimizer(job, value))}
      />
      <NumberField
        label={says.learningRate}
        value={job.learningRate}
        onpick={(learningRate, isSettled) => set({ learningRate }, isSettled)}
      />
      <NumberField
        label={says.batch[workerWord(job)]}
        value={job.batchSize}
        onpick={(batchSize, isSettled) => set({ batchSize }, isSettled)}
      />
      <NumberField label={says.epochs} value={job.epochs} onpick={(epochs, isSettled) => set({ epochs }, isSettled)} />
      <NumberField
        label={says.maxSteps}
        value={job.maxSteps}
        empty={says.noLimit}
        onpick={(maxSteps, isSettled) => set({ maxSteps }, isSettled)}
      />
      <NumberField
        label={says.maxMinutes}
        value={job.maxMinutes}
        empty={says.noLimit}
        onpick={(maxMinutes, isSettled) => set({ maxMinutes }, isSettled)}
      />
      <NumberField
        label={says.patience}
        value={job.patience}
        empty={says.noLimit}
        onpick={(patience, isSettled) => set({ patience }, isSettled)}
      />
      <NumberField label={says.seed} value={job.seed} onpick={(seed, isSettled) => set({ seed }, isSettled)} />
      <Select
        label={says.schedule}
        value={job.schedule}
        options={says.schedules}
        onpick={(schedule) => set({ schedule })}
      />
      <NumberField
        label={says.warmupSteps}
        value={job.warmupSteps}
        onpick={(warmupSteps, isSettled) => set({ warmupSteps }, isSettled)}
      />
      <NumberField
        label={says.clipNorm}
        value={job.clipNorm}
        empty={says.noLimit}
        onpick={(clipNorm, isSettled) => set({ clipNorm }, isSettled)}
      />
      <NumberField
        label={says.weightDecay}
        value={job.weightDecay}
        empty={says.asUsual}
        onpick={(weightDecay, isSettled) => set({ weightDecay }, isSettled)}
      />
      {job.job !== 'gpt' && job.model === 'mlp' && (
        <NumberField
          label={says.hidden}
          value={job.hidden}
          onpick={(hidden, isSettled) => set({ hidden }, isSettled)}
        />
      )}
      {codecsOf(job.strategy).length > 1 && (
        <Select label={says.codec} value={job.codec} options={codecOptions(job)} onpick={(codec) => set({ codec })} />
      )}
      {job.strategy !== 'data-parallel' && (
        <Select
          label={says.transport}
          value={job.transport}
          options={says.transports}
          onpick={(transport) => set({ transport })}
        />
      )}
    </>
  );
}

/** Ours that are for the job's data, and the one that it brings. */
function modelOptions({ job, model }: JobSpec): Record<ModelName | 'own', string> {
  const { cnn, own, ...all } = words.value.job.models;
  const fitting = { ...all, ...(job !== 'table' && { cnn }), ...(typeof model !== 'string' && { own }) };
  return fitting as Record<ModelName | 'own', string>;
}

/** Those that the job's strategy takes. */
function codecOptions({ strategy }: JobSpec): Record<PlannedCodec, string> {
  const { codecs } = words.value.job;
  return Object.fromEntries(codecsOf(strategy).map((codec) => [codec, codecs[codec]])) as Record<PlannedCodec, string>;
}

function StrategyFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { strategy } = job;
  const { job: says } = words.value;
  const about = useId();
  const has = (setting: (typeof SETTINGS)[typeof strategy][number]): boolean => SETTINGS[strategy].includes(setting);
  return (
    <>
      <div class="strategy">
        <Select
          label={says.strategy}
          value={strategy}
          options={says.strategies}
          about={about}
          onpick={(value) => offer(withStrategy(job, value))}
        />
        <p id={about} class="dim small">
          {says.does[strategy]}
        </p>
      </div>
      {SETTINGS[strategy].length > 0 && (
        <div class="fields">
          {has('replicas') && (
            <NumberField
              label={says.workers}
              value={job.replicas}
              onpick={(replicas, isSettled) => offer({ ...job, replicas }, isSettled)}
            />
          )}
          {has('staleness') && (
            <NumberField
              label={says.ahead}
              value={job.staleness}
              onpick={(staleness, isSettled) => offer({ ...job, staleness }, isSettled)}
            />
          )}
          {has('syncEvery') && (
            <NumberField
              // Another strategy's is another field: nothing half typed stays.
              key={strategy}
              label={has('staleness') ? says.allWait : says.exchange}
              value={job.syncEvery}
              empty={says.asUsual}
              onpick={(syncEvery, isSettled) => offer({ ...job, syncEvery }, isSettled)}
            />
          )}
        </div>
      )}
    </>
  );
}

/** What to predict of a table: chosen among its columns where it was given, else named. */
function TableFields({ job, columns, offer }: { job: JobSpec; columns: readonly string[]; offer: Offer }) {
  const { job: says } = words.value;
  const named = Object.fromEntries(columns.map((column) => [column, column]));
  const set = (target: string | null) => offer({ ...job, target, task: null });
  // A name that is not there stays to be seen, beside what is wrong with it.
  const target = job.target ?? columns.at(-1) ?? '';
  return (
    <>
      {columns.length > 0 ? (
        <Select label={says.target} value={target} options={{ ...named, [target]: target }} onpick={set} />
      ) : (
        <label class="field">
          <span>{says.target}</span>
          <input
            type="text"
            value={job.target ?? ''}
            placeholder={says.lastColumn}
            onChange={({ currentTarget }) => {
              currentTarget.setCustomValidity(set(currentTarget.value.trim() || null) ?? '');
            }}
          />
        </label>
      )}
      <Select
        label={says.task}
        value={job.task ?? 'none'}
        options={says.tasks}
        onpick={(task: TaskName | 'none') => offer({ ...job, task: task === 'none' ? null : task })}
      />
    </>
  );
}

/** Of a language model: a size by its name, or what was set under "advanced". */
function PresetField({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { job: says } = words.value;
  const preset = presetOf(job);
  return (
    <Select
      label={says.size}
      value={preset ?? 'own'}
      options={{ ...says.presets, own: says.ownSize }}
      onpick={(name) => {
        if (name !== 'own') offer(withPreset(job, name));
      }}
    />
  );
}

function GptFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { job: says } = words.value;
  const { layers, heads, width, context, dropout, tokens, vocabulary } = job.gpt;
  const set = (change: Partial<JobSpec['gpt']>, isSettled?: boolean): string | null =>
    offer({ ...job, gpt: { ...job.gpt, ...change } }, isSettled);
  return (
    <>
      <NumberField
        label={says.layers}
        value={layers}
        onpick={(value, isSettled) => set({ layers: value }, isSettled)}
      />
      <NumberField label={says.heads} value={heads} onpick={(value, isSettled) => set({ heads: value }, isSettled)} />
      <NumberField label={says.width} value={width} onpick={(value, isSettled) => set({ width: value }, isSettled)} />
      <NumberField
        label={says.context}
        value={context}
        onpick={(value, isSettled) => set({ context: value }, isSettled)}
      />
      <NumberField
        label={says.dropout}
        value={dropout}
        onpick={(value, isSettled) => set({ dropout: value }, isSettled)}
      />
      <Select label={says.tokens} value={tokens} options={says.tokenKinds} onpick={(value) => set({ tokens: value })} />
      {tokens === 'byte-pairs' && (
        <NumberField
          label={says.vocabulary}
          value={vocabulary}
          onpick={(value, isSettled) => set({ vocabulary: value }, isSettled)}
        />
      )}
    </>
  );
}

/** What pictures are brought to. */
function PictureFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { job: says } = words.value;
  return (
    <>
      <NumberField
        label={says.side}
        value={job.side}
        onpick={(side, isSettled) => offer({ ...job, side }, isSettled)}
      />
      <Select
        label={says.channels}
        value={job.channels === 1 ? '1' : '3'}
        options={says.colours}
        onpick={(channels: '1' | '3') => offer({ ...job, channels: channels === '1' ? 1 : 3 })}
      />
    </>
  );
}

/** Only texts are built in, and one tab's workers have no other to hand files on to. */
function sourceOptions({ job, strategy }: JobSpec): Record<DataSourceName, string> {
  const { sources } = words.value.job;
  const unfit = [...(job === 'gpt' ? [] : ['built-in']), ...(strategy === 'data-parallel' ? ['spread'] : [])];
  const fitting = Object.entries(sources).filter(([kind]) => !unfit.includes(kind));
  return Object.fromEntries(fitting) as Record<DataSourceName, string>;
}

function addressLabel({ job }: JobSpec): string {
  const { folder, textAddress, fileAddress } = words.value.job;
  if (job === 'mnist') return folder;
  return job === 'gpt' ? textAddress : fileAddress;
}

function DataFields({ job, offer }: { job: JobSpec; offer: Offer }) {
  const { job: says } = words.value;
  const folder = job.data.kind === 'url' ? job.data.url : null;
  return (
    <>
      <Select
        label={says.data}
        value={job.data.kind as DataSourceName}
        options={sourceOptions(job)}
        onpick={(kind) => offer(withSource(job, kind, SERVER_DATA))}
      />
      {folder !== null && (
        <label class="field wide">
          <span>{addressLabel(job)}</span>
          <input
            type="text"
            inputMode="url"
            value={folder}
            onChange={(event) => {
              const url = event.currentTarget.value.trim();
              event.currentTarget.setCustomValidity(offer({ ...job, data: { kind: 'url', url } }) ?? '');
            }}
          />
        </label>
      )}
    </>
  );
}
