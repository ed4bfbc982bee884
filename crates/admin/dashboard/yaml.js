// Active rules as rule files, to edit and simulate.

const UNITS = [[365 * 86_400_000, "year"], [30 * 86_400_000, "month"], [7 * 86_400_000, "week"], [86_400_000, "day"], [3_600_000, "hour"], [60_000, "minute"], [1_000, "second"]];

/** A plain YAML scalar, or a quoted one if necessary. */
const scalar = text => (/^[A-Za-z_][A-Za-z0-9_./-]*$/.test(text) && !/^(y|yes|n|no|on|off|true|false|null)$/i.test(text) ? text : JSON.stringify(text));

function limitLine(limit, name) {
  const [length, unit] = UNITS.find(([size]) => limit.period_ms % size === 0) ?? [1_000, "second"];
  const times = Math.max(1, Math.round(limit.period_ms / length));
  const parts = [`unit: ${unit}`];
  if (times > 1) parts.push(`unit_multiplier: ${times}`);
  parts.push(`requests_per_unit: ${limit.requests}`);
  if (limit.algorithm !== "fixed_window") parts.push(`algorithm: ${limit.algorithm}`);
  if (limit.algorithm === "token_bucket" && limit.burst) parts.push(`burst: ${limit.burst}`);
  if (name) parts.push(`name: ${scalar(name)}`);
  return `{${parts.join(", ")}}`;
}

/** Returns `[{ name, text }]`, one file per domain. */
export function filesOf(rules) {
  const domains = new Map();
  for (const rule of rules) {
    const root = domains.get(rule.domain) ?? domains.set(rule.domain, new Map()).get(rule.domain);
    let level = root;
    let node = null;
    for (const part of rule.path) {
      const id = JSON.stringify([part.key, part.value]);
      node = level.get(id) ?? level.set(id, { ...part, below: new Map() }).get(id);
      level = node.below;
    }
    if (node) node.rule = rule;
  }
  return [...domains].map(([domain, root], index) => ({ name: `${/^[\w-]{1,60}$/.test(domain) ? domain : `domain-${index + 1}`}.yaml`, text: [`domain: ${scalar(domain)}`, "descriptors:", ...lines(root, "  ")].join("\n") + "\n" }));
}

function lines(level, indent) {
  return [...level.values()].flatMap(({ key, value, rule, below }) => {
    const own = [`${indent}- key: ${scalar(key)}`];
    const inner = `${indent}  `;
    if (value !== null && value !== undefined) own.push(`${inner}value: ${scalar(value)}`);
    if (rule?.unlimited) own.push(`${inner}rate_limit: {unlimited: true}`);
    else if (rule?.limits.length === 1) own.push(`${inner}rate_limit: ${limitLine(rule.limits[0], rule.name)}`);
    else if (rule?.limits.length > 1) own.push(`${inner}rate_limits:`, ...rule.limits.map(limit => `${inner}  - ${limitLine(limit)}`));
    if (rule?.mode === "shadow") own.push(`${inner}shadow_mode: true`);
    if (rule?.mode === "quota") own.push(`${inner}quota_mode: true`);
    if (below.size > 0) own.push(`${inner}descriptors:`, ...lines(below, `${inner}  `));
    return own;
  });
}
