//! Inputs and filters of the GraphQL API, with the official names.

use async_graphql::{ID, InputObject, InputValueError, InputValueResult, MaybeUndefined, Scalar, ScalarType, Value};
use jiff::Timestamp;

use crate::linear_ops::time;
use crate::model::{State, Ticket};

/// An instant, RFC 3339 in UTC.
#[derive(Clone, Copy)]
pub struct DateTime(pub Timestamp);

#[Scalar(name = "DateTime")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<Self> {
        match &value {
            Value::String(s) => Ok(Self(s.parse().map_err(|_| InputValueError::custom("not a date"))?)),
            _ => Err(InputValueError::expected_type(value)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(time(self.0))
    }
}

/// An instant, or an ISO 8601 duration from now such as `-P2W`.
#[derive(Clone, Copy)]
pub struct DateTimeOrDuration(pub Timestamp);

#[Scalar(name = "DateTimeOrDuration")]
impl ScalarType for DateTimeOrDuration {
    fn parse(value: Value) -> InputValueResult<Self> {
        let Value::String(s) = &value else { return Err(InputValueError::expected_type(value)) };
        if let Ok(at) = s.parse() {
            return Ok(Self(at));
        }
        let bad = || InputValueError::custom("neither a date nor a duration");
        let span: jiff::Span = s.parse().map_err(|_| bad())?;
        let now = Timestamp::now().to_zoned_datetime(jiff::tz::TimeZone::UTC);
        Ok(Self(now.checked_add(span).map_err(|_| bad())?.timestamp()))
    }

    fn to_value(&self) -> Value {
        Value::String(time(self.0))
    }
}

/// Compares a text.
#[derive(InputObject, Clone, Default)]
pub struct StringComparator {
    pub eq: Option<String>,
    pub neq: Option<String>,
    #[graphql(name = "in")]
    pub one_of: Option<Vec<String>>,
    pub nin: Option<Vec<String>>,
    pub eq_ignore_case: Option<String>,
    pub contains: Option<String>,
    pub contains_ignore_case: Option<String>,
}

/// Compares a text that may be missing.
#[derive(InputObject, Clone, Default)]
pub struct NullableStringComparator {
    pub null: Option<bool>,
    pub contains: Option<String>,
    pub contains_ignore_case: Option<String>,
}

impl NullableStringComparator {
    fn fits(&self, v: &str) -> bool {
        self.null.is_none_or(|null| null == v.is_empty())
            && self.contains.as_ref().is_none_or(|x| v.contains(x.as_str()))
            && self.contains_ignore_case.as_ref().is_none_or(|x| v.to_lowercase().contains(&x.to_lowercase()))
    }
}

impl StringComparator {
    fn fits(&self, v: &str) -> bool {
        self.eq.as_ref().is_none_or(|x| x == v)
            && self.neq.as_ref().is_none_or(|x| x != v)
            && self.one_of.as_ref().is_none_or(|x| x.iter().any(|y| y == v))
            && self.nin.as_ref().is_none_or(|x| x.iter().all(|y| y != v))
            && self.eq_ignore_case.as_ref().is_none_or(|x| x.to_lowercase() == v.to_lowercase())
            && self.contains.as_ref().is_none_or(|x| v.contains(x.as_str()))
            && self.contains_ignore_case.as_ref().is_none_or(|x| v.to_lowercase().contains(&x.to_lowercase()))
    }
}

/// Compares an id.
#[derive(InputObject, Clone, Default)]
#[graphql(name = "IDComparator")]
pub struct IdComparator {
    pub eq: Option<ID>,
    pub neq: Option<ID>,
    #[graphql(name = "in")]
    pub one_of: Option<Vec<ID>>,
    pub nin: Option<Vec<ID>>,
}

/// Compares a ticket's id.
#[derive(InputObject, Clone, Default)]
#[graphql(name = "IssueIDComparator")]
pub struct IssueIdComparator {
    pub eq: Option<ID>,
    #[graphql(name = "in")]
    pub one_of: Option<Vec<ID>>,
}

impl IssueIdComparator {
    fn fits(&self, t: &Ticket) -> bool {
        self.eq.as_ref().is_none_or(|x| x.as_str() == t.id)
            && self.one_of.as_ref().is_none_or(|x| x.iter().any(|y| y.as_str() == t.id))
    }
}

impl IdComparator {
    fn fits(&self, v: &str) -> bool {
        self.eq.as_ref().is_none_or(|x| x.as_str() == v)
            && self.neq.as_ref().is_none_or(|x| x.as_str() != v)
            && self.one_of.as_ref().is_none_or(|x| x.iter().any(|y| y.as_str() == v))
            && self.nin.as_ref().is_none_or(|x| x.iter().all(|y| y.as_str() != v))
    }
}

/// Compares yes and no.
#[derive(InputObject, Clone, Default)]
pub struct BooleanComparator {
    pub eq: Option<bool>,
    pub neq: Option<bool>,
}

/// Compares an instant.
#[derive(InputObject, Clone, Default)]
pub struct DateComparator {
    pub gt: Option<DateTimeOrDuration>,
    pub gte: Option<DateTimeOrDuration>,
    pub lt: Option<DateTimeOrDuration>,
    pub lte: Option<DateTimeOrDuration>,
}

impl DateComparator {
    fn fits(&self, v: Timestamp) -> bool {
        self.gt.is_none_or(|x| v > x.0)
            && self.gte.is_none_or(|x| v >= x.0)
            && self.lt.is_none_or(|x| v < x.0)
            && self.lte.is_none_or(|x| v <= x.0)
    }
}

#[derive(InputObject, Clone, Default)]
pub struct TeamFilter {
    pub id: Option<IdComparator>,
    pub key: Option<StringComparator>,
    pub name: Option<StringComparator>,
}

#[derive(InputObject, Clone, Default)]
pub struct WorkflowStateFilter {
    pub id: Option<IdComparator>,
    pub name: Option<StringComparator>,
    #[graphql(name = "type")]
    pub kind: Option<StringComparator>,
    pub team: Option<TeamFilter>,
}

#[derive(InputObject, Clone, Default)]
pub struct NullableUserFilter {
    pub id: Option<IdComparator>,
    pub is_me: Option<BooleanComparator>,
    pub email: Option<StringComparator>,
    pub name: Option<StringComparator>,
    pub display_name: Option<StringComparator>,
    pub null: Option<bool>,
    pub or: Option<Vec<NullableUserFilter>>,
}

#[derive(InputObject, Clone, Default)]
pub struct NullableTeamFilter {
    pub id: Option<IdComparator>,
    pub key: Option<StringComparator>,
    pub null: Option<bool>,
}

#[derive(InputObject, Clone, Default)]
pub struct IssueLabelFilter {
    pub id: Option<IdComparator>,
    pub name: Option<StringComparator>,
    pub team: Option<NullableTeamFilter>,
    pub or: Option<Vec<IssueLabelFilter>>,
}

#[derive(InputObject, Clone, Default)]
pub struct UserFilter {
    pub active: Option<BooleanComparator>,
}

#[derive(InputObject, Clone, Default)]
pub struct IssueLabelCollectionFilter {
    pub id: Option<IdComparator>,
    pub name: Option<StringComparator>,
    pub some: Option<IssueLabelFilter>,
    pub every: Option<IssueLabelFilter>,
}

#[derive(InputObject, Clone, Default)]
pub struct IssueFilter {
    pub id: Option<IssueIdComparator>,
    pub and: Option<Vec<IssueFilter>>,
    pub or: Option<Vec<IssueFilter>>,
    pub team: Option<TeamFilter>,
    pub labels: Option<IssueLabelCollectionFilter>,
    pub assignee: Option<NullableUserFilter>,
    pub state: Option<WorkflowStateFilter>,
    pub title: Option<StringComparator>,
    pub description: Option<NullableStringComparator>,
    pub created_at: Option<DateComparator>,
    pub updated_at: Option<DateComparator>,
}

fn all<T>(filter: Option<&T>, fits: impl FnOnce(&T) -> bool) -> bool {
    filter.is_none_or(fits)
}

impl TeamFilter {
    /// Whether the team of that key passes.
    pub fn fits(&self, state: &State, key: &str) -> bool {
        let Some(team) = state.teams.get(key) else { return false };
        all(self.id.as_ref(), |f| f.fits(&team.id))
            && all(self.key.as_ref(), |f| f.fits(&team.key))
            && all(self.name.as_ref(), |f| f.fits(&team.name))
    }
}

impl WorkflowStateFilter {
    /// Whether a column of a team passes.
    pub fn fits(&self, state: &State, team: &str, column: &crate::model::Column) -> bool {
        all(self.id.as_ref(), |f| f.fits(&column.id))
            && all(self.name.as_ref(), |f| f.fits(&column.name))
            && all(self.kind.as_ref(), |f| f.fits(&column.kind))
            && all(self.team.as_ref(), |f| f.fits(state, team))
    }
}

impl NullableUserFilter {
    fn fits(&self, state: &State, user: Option<&String>) -> bool {
        if self.null.is_some_and(|null| null != user.is_none()) {
            return false;
        }
        let Some(id) = user else {
            // Nobody is neither me nor anyone by id.
            let named = [&self.email, &self.name, &self.display_name].into_iter().any(Option::is_some);
            return self.id.is_none()
                && !named
                && self.or.is_none()
                && self.is_me.as_ref().is_none_or(|f| f.eq != Some(true));
        };
        let me = state.me().uuid == *id;
        all(self.id.as_ref(), |f| f.fits(id))
            && all(self.is_me.as_ref(), |f| f.eq.is_none_or(|x| x == me) && f.neq.is_none_or(|x| x != me))
            && all(self.email.as_ref(), |f| state.user_by_uuid(id).is_some_and(|u| f.fits(&u.email)))
            && all(self.name.as_ref(), |f| state.user_by_uuid(id).is_some_and(|u| f.fits(&u.name)))
            && all(self.display_name.as_ref(), |f| state.user_by_uuid(id).is_some_and(|u| f.fits(&u.login)))
            && all(self.or.as_ref(), |fs| fs.iter().any(|f| f.fits(state, user)))
    }
}

impl NullableTeamFilter {
    fn fits(&self, state: &State, team: Option<&str>) -> bool {
        let found = team.and_then(|key| state.teams.get(key));
        self.null.is_none_or(|null| null == team.is_none())
            && all(self.id.as_ref(), |f| found.is_some_and(|t| f.fits(&t.id)))
            && all(self.key.as_ref(), |f| found.is_some_and(|t| f.fits(&t.key)))
    }
}

impl IssueLabelFilter {
    /// Whether a label passes.
    pub fn fits(&self, state: &State, label: &crate::model::Label) -> bool {
        all(self.id.as_ref(), |f| f.fits(&label.id))
            && all(self.name.as_ref(), |f| f.fits(&label.name))
            && all(self.team.as_ref(), |f| f.fits(state, label.team.as_deref()))
            && all(self.or.as_ref(), |fs| fs.iter().any(|f| f.fits(state, label)))
    }
}

impl IssueLabelCollectionFilter {
    fn fits(&self, state: &State, ids: &[String]) -> bool {
        let named = |f: &IssueLabelFilter, id: &String| state.labels.get(id).is_some_and(|l| f.fits(state, l));
        let direct = IssueLabelFilter { id: self.id.clone(), name: self.name.clone(), ..IssueLabelFilter::default() };
        let any = |f: &IssueLabelFilter| ids.iter().any(|id| named(f, id));
        ((direct.id.is_none() && direct.name.is_none()) || any(&direct))
            && all(self.some.as_ref(), any)
            && all(self.every.as_ref(), |f| ids.iter().all(|id| named(f, id)))
    }
}

impl IssueFilter {
    /// Whether a ticket passes.
    pub fn fits(&self, state: &State, t: &Ticket) -> bool {
        all(self.id.as_ref(), |f| f.fits(t))
            && all(self.and.as_ref(), |fs| fs.iter().all(|f| f.fits(state, t)))
            && all(self.or.as_ref(), |fs| fs.iter().any(|f| f.fits(state, t)))
            && all(self.team.as_ref(), |f| f.fits(state, &t.team))
            && all(self.labels.as_ref(), |f| f.fits(state, &t.labels))
            && all(self.assignee.as_ref(), |f| f.fits(state, t.assignee.as_ref()))
            && all(self.state.as_ref(), |f| state.column(t).is_some_and(|c| f.fits(state, &t.team, c)))
            && all(self.title.as_ref(), |f| f.fits(&t.title))
            && all(self.description.as_ref(), |f| f.fits(t.description.as_deref().unwrap_or_default()))
            && all(self.created_at.as_ref(), |f| f.fits(t.created_at))
            && all(self.updated_at.as_ref(), |f| f.fits(t.updated_at))
    }
}

#[derive(InputObject)]
pub struct CommentCreateInput {
    pub id: Option<String>,
    pub issue_id: Option<String>,
    pub body: Option<String>,
    pub parent_id: Option<String>,
}

#[derive(InputObject)]
pub struct CommentUpdateInput {
    pub body: Option<String>,
}

#[derive(InputObject)]
pub struct IssueUpdateInput {
    pub title: Option<String>,
    pub description: MaybeUndefined<String>,
    pub state_id: Option<String>,
    pub assignee_id: MaybeUndefined<String>,
    pub label_ids: Option<Vec<String>>,
    pub added_label_ids: Option<Vec<String>>,
    pub removed_label_ids: Option<Vec<String>>,
    pub priority: Option<i32>,
    pub trashed: MaybeUndefined<bool>,
}

#[derive(InputObject)]
pub struct IssueCreateInput {
    pub id: Option<String>,
    pub team_id: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub assignee_id: Option<String>,
    pub label_ids: Option<Vec<String>>,
    pub state_id: Option<String>,
    pub priority: Option<i32>,
    pub parent_id: Option<String>,
}

#[derive(InputObject)]
pub struct AttachmentCreateInput {
    pub id: Option<String>,
    pub issue_id: String,
    pub url: String,
    pub title: String,
    pub subtitle: Option<String>,
}
