/** Shows the layers of a custom model, with output shapes and numbers of weights. */
import { layerRowsOf, type ModelTopology } from '../../spec/topology.ts';
import { formatCount } from '../locales/format.ts';
import { uiMessages } from '../locales/index.ts';

export function LayerTable({ model }: { model: ModelTopology }) {
  const { layerTable: labels } = uiMessages.value.job;
  const rows = layerRowsOf(model);
  return (
    <div class="preview">
      <p class="small">
        {labels.sum(rows.length, formatCount(rows.reduce((sum, { parameters }) => sum + parameters, 0)))}
      </p>
      <div class="preview-table" tabIndex={0} role="region" aria-label={labels.title}>
        <table>
          <thead>
            <tr>
              <th scope="col">{labels.layer}</th>
              <th scope="col">{labels.gives}</th>
              <th scope="col" class="number">
                {labels.parameters}
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ name, kind, shape, parameters }) => (
              <tr key={name}>
                <th scope="row" lang="en">
                  {kind}
                </th>
                <td>{shape.join(' × ')}</td>
                <td class="number">{formatCount(parameters)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
