/** The expected costs of each method in this room, measured by a run. */
import type { MethodTestResult } from '../../protocol/runResult.ts';
import { methodChangesLearning } from '../../spec/methods.ts';
import { formatBytes, formatMs, formatRatio } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';

interface Props {
  methods: MethodTestResult;
  /** Number of ranks that were measured. */
  worldSize: number;
  /** Called when the host picks a method; `null` if this member cannot pick one. */
  onpick: ((method: string) => void) | null;
}

export function MethodTable({ methods, worldSize, onpick }: Props) {
  const { methods: labels } = uiMessages.value.job;
  const { costs, best, unchanged } = methods;
  return (
    <div class="methods">
      <div class="table-box">
        <table class="ranks">
          <thead>
            <tr>
              <th scope="col">{labels.method}</th>
              <th scope="col" class="right">
                {labels.step}
              </th>
              <th scope="col" class="right">
                {labels.sends}
              </th>
              <th scope="col" class="right">
                {labels.goal}
              </th>
              {onpick && <th scope="col" aria-label={labels.use} />}
            </tr>
          </thead>
          <tbody>
            {costs.map(({ method, stepMs, bytesPerStep, timeToGoal }) => (
              <tr key={method}>
                <th scope="row">
                  {labels.name(method)}
                  {methodChangesLearning(method) && (
                    <span class="dim" aria-hidden="true">
                      {'\u00a0*'}
                    </span>
                  )}
                </th>
                <td class="right number">{formatMs(stepMs)}</td>
                <td class="right number">{formatBytes(bytesPerStep)}</td>
                <td class="right number">{formatRatio(timeToGoal)} ×</td>
                {onpick && (
                  <td class="right">
                    <button
                      type="button"
                      class={method === best ? 'primary' : 'quiet'}
                      aria-label={labels.useMethod(labels.name(method))}
                      onClick={() => onpick(method)}
                    >
                      {labels.use}
                    </button>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="dim small">
        {labels.about(worldSize)}
        {methodChangesLearning(best) && ` ${labels.unchanged(labels.name(unchanged))}`}
      </p>
    </div>
  );
}
