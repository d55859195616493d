/**
 * The lesson about pipelines, for one tab. All stages are simulated, and the settings are in the
 * address of the page.
 */
import { gptNetworkSize, gptWeightShapes } from '../../../jobs/gpt/shapes.ts';
import { GPT_PRESETS } from '../../../spec/gpt.ts';
import { STATE_BYTES_PER_WEIGHT } from '../../../spec/pipeline.ts';
import { elementCountOf } from '../../../util/shape.ts';
import { GlossaryTerm } from '../../components/GlossaryTerm.tsx';
import { formatBytes, formatCount, formatPercent } from '../../locales/format.ts';
import { uiMessages } from '../../locales/index.ts';
import { writeSettingsToAddress, pageRoute } from '../../state/address.ts';
import { integerFromQuery } from '../../state/route.ts';
import { LessonLinks } from '../common/LessonLinks.tsx';
import { LessonText } from '../common/LessonText.tsx';
import {
  MICRO_BATCH_BOUNDS,
  lessonPipelinePlan,
  STAGE_BOUNDS,
  type LessonPipelineSize,
  bubbleShare,
  countPlanSquares,
} from './board.ts';
import { ModelCut } from './ModelCut.tsx';
import { PipelineSizeFields } from './PipelineSizeFields.tsx';
import { PlanPlayerByTick } from './PlanPlayerByTick.tsx';
import { PipelineTimingPanel } from './PipelineTimingPanel.tsx';
import { YourTurn } from './YourTurn.tsx';
import { PipelinePlanGrid } from './PipelinePlanGrid.tsx';
import { PipelineLessonLegend } from './PipelineLessonLegend.tsx';
import { PIPELINE_LESSON_PAGES, type PipelineLessonPageId } from './pages.ts';

const GPT2 = GPT_PRESETS.gpt2.model;
const WEIGHTS = gptWeightShapes(gptNetworkSize(GPT2, GPT2.vocabulary)).reduce(
  (sum, shape) => sum + elementCountOf(shape),
  0,
);

export function PipelineLesson() {
  const { pipelineLesson } = uiMessages.value;
  const { query } = pageRoute.value;
  const page = integerFromQuery(query, 'page', [1, 1, PIPELINE_LESSON_PAGES.length]) - 1;
  const size: LessonPipelineSize = {
    stages: integerFromQuery(query, 'stages', STAGE_BOUNDS),
    microBatches: integerFromQuery(query, 'microBatches', MICRO_BATCH_BOUNDS),
  };
  const name = PIPELINE_LESSON_PAGES[page]!;
  const bytes = WEIGHTS * STATE_BYTES_PER_WEIGHT;
  return (
    <main class="lesson wrap">
      <h1 class="away">{pipelineLesson.heading}</h1>
      <LessonLinks current="pipeline" />
      <p class="dim small">{pipelineLesson.simulated}</p>
      <div class="lesson-columns">
        <LessonText
          thought={pipelineLesson.thoughts[name]({
            ...size,
            weights: formatCount(WEIGHTS),
            whole: formatBytes(bytes),
            part: formatBytes(bytes / size.stages),
            term: (term, text) => <GlossaryTerm of={term}>{text}</GlossaryTerm>,
          })}
          page={page}
          pages={PIPELINE_LESSON_PAGES.length}
          onpage={(next) => writeSettingsToAddress({ page: String(next + 1) })}
          ending={
            <div class="row">
              <a class="button primary" href="#new?job=gpt&strategy=pipeline">
                {pipelineLesson.ending.room}
              </a>
              <a class="button" href="#lesson">
                {pipelineLesson.ending.lesson}
              </a>
            </div>
          }
        />
        <div class="pipeline-parts">
          <PipelineSizeFields size={size} isBatchWhole={name === 'why' || name === 'one'} />
          <Part key={`${name} ${size.stages} ${size.microBatches}`} name={name} size={size} bytes={bytes} />
        </div>
      </div>
    </main>
  );
}

/**
 * The part of the screen that the page explains. If the number of stages or micro-batches changes,
 * the part starts from its beginning.
 */
function Part({ name, size, bytes }: { name: PipelineLessonPageId; size: LessonPipelineSize; bytes: number }) {
  switch (name) {
    case 'why':
      return <ModelCut stages={size.stages} layers={GPT2.layers} bytes={bytes} />;
    case 'one':
      return <PlanPlayerByTick plans={{ gpipe: lessonPipelinePlan('gpipe', { ...size, microBatches: 1 }) }} />;
    case 'micro':
      return <PlanPlayerByTick plans={{ gpipe: lessonPipelinePlan('gpipe', size) }} />;
    case 'bubble':
      return <Bubble size={size} />;
    case 'turn':
      return <YourTurn size={size} />;
    case 'compare':
      return (
        <PlanPlayerByTick
          plans={{ gpipe: lessonPipelinePlan('gpipe', size), '1f1b': lessonPipelinePlan('1f1b', size) }}
        />
      );
    case 'training':
      return <PipelineTimingPanel size={size} />;
    default:
      return name satisfies never;
  }
}

function Bubble({ size }: { size: LessonPipelineSize }) {
  const { bubble, schedules } = uiMessages.value.pipelineLesson;
  const plan = lessonPipelinePlan('gpipe', size);
  const { all, waiting } = countPlanSquares(plan);
  const { stages, microBatches } = size;
  return (
    <section class="pipeline-part" aria-label={bubble.title}>
      <PipelineLessonLegend />
      <PipelinePlanGrid caption={schedules.gpipe} plan={plan} columns={plan.ticks} hasKept={false} chooses={null} />
      <dl class="bubble-sums" aria-live="polite">
        <div>
          <dt class="dim">{bubble.counted}</dt>
          <dd>{bubble.squares(waiting, all)}</dd>
          <dd class="number">{formatPercent(waiting / all, 1)}</dd>
        </div>
        <div>
          <dt class="dim">{bubble.formula}</dt>
          <dd>
            ({stages}−1) / ({microBatches}+{stages}−1)
          </dd>
          <dd class="number">{formatPercent(bubbleShare(size), 1)}</dd>
        </div>
      </dl>
    </section>
  );
}
