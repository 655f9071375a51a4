//! Words why no collective of a kind leads from one sharding to another.

use crate::collective::CollectiveFault;
use crate::mesh::Mesh;
use crate::print;
use crate::sharding::AxisRef;

impl CollectiveFault {
    /// The reason as a clause; `dims` are the names of the value's dimensions.
    pub fn reason(&self, mesh: &Mesh, dims: &[&str]) -> String {
        let dim = |position: usize| dims.get(position).copied().unwrap_or("?");
        let name = |axis: &AxisRef| mesh.axes[axis.axis()].name.as_str();
        match self {
            Self::Rank => "the two have different numbers of dimensions".to_owned(),
            Self::PendingChanges => "it leaves what is unreduced as it is".to_owned(),
            Self::NotTrailing { position, axis, list } => {
                let list = format!("{}_{}", dim(*position), print::axis_word(mesh, list));
                format!(
                    "a gather strips trailing axes only, and `{}` is not at the end of `{list}`",
                    name(axis)
                )
            }
            Self::Rearranges(position) => {
                format!(
                    "axes are dropped from the end and appended at the end, and `{}` changes \
                        otherwise",
                    dim(*position)
                )
            }
            Self::PendingAppears => {
                "its result is unreduced over axes that its operand is not".to_owned()
            }
            Self::NothingPending => "it leaves no sum pending that was not".to_owned(),
            Self::NotASum => "only a sum can be left pending by zeros".to_owned(),
            Self::NothingReduced => "it reduces unreduced axes, and none is removed".to_owned(),
            Self::DimsChange => "it leaves the dimensions as they are".to_owned(),
            Self::ScattersOthers => {
                "a scatter appends every axis that it reduces to a dimension".to_owned()
            }
            Self::NotOneAxis => "a slice appends one axis".to_owned(),
            Self::AxisInUse(axis) => {
                format!("it takes an axis that is free, and `{}` is in use", name(axis))
            }
            Self::NotAMove => {
                "an AllToAll moves trailing axes of dimensions to the ends of others, where it \
                    may append free axes, too, and no dimension both gives and receives axes"
                    .to_owned()
            }
            Self::LocalSizeChanges(position) => {
                format!(
                    "a Permute keeps the local size of every dimension, and that of `{}` changes",
                    dim(*position)
                )
            }
            Self::NothingChanges => "nothing changes".to_owned(),
        }
    }
}
